// The gradient of the map that distils single steps: dG[r, i, f] = sum over pairs and queries of dy[p][s][r] M[p][s][i, f].
//
// `distil.cu` has the axes, `distil_pack.cu` the order of `back` and `left`. A block has four rows i and CHUNK of
// what is distilled; two warps have a row, each half of the depth. Left operands are the memories of two pairs,
// turned: they are made in the registers from which they are read. Pairs are shared out over the parts of a sum,
// stage by stage; each part is written for itself, so that sums have one order.
#define THREADS 256
#define PAIRS (2 * TWOS)
#define FD ((D / 16 + 1) / 2)
#define OUT (CHUNK / 8)
#define STAGES 3
#define WORD (REAL_D % 4 ? 1 : 4)

struct Stage {
  elem back[TWOS][CHUNK / 16 * 256];
  elem left[TWOS][2 * FD * 256];
  float rows[PAIRS][16][4];  // queries, then keys, at the block's four i
};
struct Shared {
  Stage ring[STAGES];
};

DI void bring_block(elem* to, const elem* from, int size) {
  for (int x = 16 * threadIdx.x; x < size * (int)sizeof(elem); x += 16 * THREADS) copy_async<16>((char*)to + x, (const char*)from + x, true);
}

// what a block reads of some pairs; where there is no such pair or query, the operands are zero, and any row will do
DI void bring_stage(Stage& to, const float* normal, const elem* back, const elem* left, int n, int i, int chunk, int batch, int time, int first, int count) {
  const long long two = (long long)n * TWOS;
  bring_block(to.left[0], left + two * (2 * FD * 256), TWOS * 2 * FD * 256);
#pragma unroll
  for (int t = 0; t < TWOS; t++) bring_block(to.back[t], back + (two + t) * (Y * 16) + chunk * (CHUNK * 16), CHUNK * 16);
  for (int x = threadIdx.x; x < PAIRS * 16 * (4 / WORD); x += THREADS) {
    const int row = x / (4 / WORD), m = row % 16, off = x % (4 / WORD) * WORD, s = (m & 7) < REAL_N ? m & 7 : 0;
    const int last = batch * count - 1, p = n * PAIRS + row / 16 < last ? n * PAIRS + row / 16 : last;
    const long long step = (long long)(p / count) * time + first + p % count;
    const int column = i + off < REAL_D ? i + off : 0;
    copy_async<4 * WORD>(&to.rows[row / 16][m][off], normal + ((step * 3 + (m >> 3)) * REAL_N + s) * REAL_D + column, true);
  }
}

// the memories of two pairs, one row i, half of the depth: rows f, neighbours s
DI void make_memory(const Stage& from, int two, int row, int half, pair_t (*a)[4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3;
  pair_t match[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const auto& rows = from.rows[2 * two + h];
    const float q = rows[g][row];
    match[h] = pair(tanh_of(q * rows[8 + 2 * tq][row]), tanh_of(q * rows[9 + 2 * tq][row]));
  }
#pragma unroll
  for (int x = 0; x < FD; x++) {
    pair_t v[4];
    load_tile(from.left[two] + (half * FD + x) * 256, lane, v);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float made[4] = {0.f, 0.f, 0.f, 0.f};
      multiply8(made, v[2 * h], v[2 * h + 1], match[h]);
      a[x][2 * h] = pair(made[0], made[1]), a[x][2 * h + 1] = pair(made[2], made[3]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) distil_weight(
    const float* __restrict__ normal, const elem* __restrict__ back, const elem* __restrict__ left,
    const float* __restrict__ scale, float* __restrict__ d_weight, int batch, int time, int first, int count, int parts) {
  SHARED_MEMORY(Shared, sh)
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3, row = warp >> 1, half = warp & 1;
  const int part = blockIdx.x % parts, chunk = blockIdx.x / parts % (Y / CHUNK), i0 = 4 * (blockIdx.x / parts / (Y / CHUNK));
  const int stages = (batch * count + PAIRS - 1) / PAIRS;
  float sum[FD][OUT][4] = {};
  pair_t now[FD][4], next[FD][4];
#pragma unroll
  for (int x = 0; x < STAGES - 1; x++) {
    if (part + x * parts < stages) bring_stage(sh.ring[x], normal, back, left, part + x * parts, i0, chunk, batch, time, first, count);
    close_copies();
  }
  for (int n = part, at = 0; n < stages; n += parts, at = at + 1 < STAGES ? at + 1 : 0) {
    await_copies<STAGES - 2>();
    barrier();
    const int later = n + (STAGES - 1) * parts, there = at ? at - 1 : STAGES - 1;
    if (later < stages) bring_stage(sh.ring[there], normal, back, left, later, i0, chunk, batch, time, first, count);
    close_copies();
    const Stage& from = sh.ring[at];
    make_memory(from, 0, row, half, next);
    UNROLL
    for (int two = 0; two < TWOS; two++) {
#pragma unroll
      for (int x = 0; x < 4 * FD; x++) now[x / 4][x % 4] = next[x / 4][x % 4];
      // what is read next is made while this is multiplied
      if (two + 1 < TWOS) make_memory(from, two + 1, row, half, next);
#pragma unroll
      for (int r = 0; r < OUT; r += 2) {
        pair_t b[4];
        load_tile(from.back[two] + r / 2 * 256, lane, b);
#pragma unroll
        for (int x = 0; x < FD; x++) {
          multiply16(sum[x][r], now[x], b);
          multiply16(sum[x][r + 1], now[x], b + 2);
        }
      }
    }
  }
  const float by = scale ? 1.f / *scale : 1.f;
  const int i = i0 + row;
#pragma unroll
  for (int x = 0; x < FD; x++)
#pragma unroll
    for (int r = 0; r < OUT; r++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int o = chunk * CHUNK + 8 * r + 2 * tq + (e & 1), f = 16 * (half * FD + x) + 8 * (e >> 1) + g;
        if (o < REAL_R && i < REAL_D && f < REAL_D) d_weight[(((long long)part * REAL_R + o) * REAL_D + i) * REAL_D + f] = by * sum[x][r][e];
      }
}
