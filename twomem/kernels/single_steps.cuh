// What the kernels that go through all rows of the memories of single steps share: how a block's work is cut, and
// how it is brought. `Shared` has `rows` and `ring`, and `step`, the step of each of the block's pairs, -1 if there is none.
#define THREADS (64 * GROUPS)
#define PAIRS (2 * TILES * GROUPS)
#define FD ((D / 16 + 1) / 2)
#define SLOT (64 * R)
#define WORD (REAL_D % 4 ? 1 : 4)

template <class Shared>
DI void find_steps(Shared& sh, int batch, int time, int first, int count) {
  for (int x = threadIdx.x; x < PAIRS; x += THREADS) {
    const int p = blockIdx.x * PAIRS + x;
    sh.step[x] = p < batch * count ? p / count * time + first + p % count : -1;
  }
  barrier();
}

// a part of the map that all warps read
template <class Shared>
DI void bring_part(Shared& sh, const elem* weight, int n) {
  const char* from = (const char*)(weight + (long long)n * SPAN * SLOT);
  char* to = (char*)sh.ring[n & 1];
#pragma unroll
  for (int x = 16 * threadIdx.x; x < SPAN * SLOT * (int)sizeof(elem); x += 16 * THREADS) copy_async<16>(to + x, from + x, true);
}

// queries and keys of all pairs
template <class Shared>
DI void bring_rows(Shared& sh, const float* normal) {
  for (int x = threadIdx.x; x < PAIRS * 16 * (D / WORD); x += THREADS) {
    const int row = x / (D / WORD), i = WORD * (x % (D / WORD)), m = row % 16, step = sh.step[row / 16];
    const bool there = step >= 0 && (m & 7) < REAL_N && i < REAL_D;
    const long long at = there ? (((long long)step * 3 + (m >> 3)) * REAL_N + (m & 7)) * REAL_D + i : 0;
    copy_async<4 * WORD>(&sh.rows[row / 16][m][i], normal + at, there);
  }
}
