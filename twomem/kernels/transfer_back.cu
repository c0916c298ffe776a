// The gradient of the transfer, sum over all steps t of all sequences and keys j of d_image[t][j][o] K[t][j][s][i], where
// K[t][j][s] = tanh(q_s k_j). The matches are made in the registers from which the tensor cores read them, each once.
//
// A row m is a key of a step. A warp has eight columns i of PER queries, and all o; a block has 8 * WARPS columns. Rows are
// shared out over blockIdx.x % parts; each part writes a sum of its own. Rows are staged 16 * TILES at a time.
#define DEEP (D / 16)
#define THREADS (32 * WARPS)
#define TILES 2
#define ROWS (16 * TILES)
// of how many steps ROWS rows in a row can be
#define NEAR (ROWS % N ? (ROWS + N - 2) / N + 1 : ROWS / N)
#define FETCHED (TILES * DEEP / WARPS)
#define WIDE (8 * WARPS)

struct Stage {
  float keys[ROWS][WIDE + 4];
  float queries[NEAR * PER][WIDE + 4];
  elem images[ROWS * D];  // in the order of a left operand: rows o, neighbours m
};
struct Shared {
  Stage stage[2];
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) transfer_back(
    const float* __restrict__ normal, const float* __restrict__ d_image, float* __restrict__ d_transfer, int steps, int parts) {
  SHARED_MEMORY(Shared, sh)
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3;
  const int part = blockIdx.x % parts, group = blockIdx.x / parts, i0 = group % (D / WIDE) * WIDE, s0 = group / (D / WIDE) * PER;
  const int rows = steps * N, all = (rows + ROWS - 1) / ROWS, each = (all + parts - 1) / parts, first = part * each;
  const int last = first + each < all ? first + each : all;
  // rows that there are not are those of the last, and meet zeros
  const auto fetch = [&](Stage& to, int m0) {
    for (int x = tid; x < (ROWS + NEAR * PER) * (WIDE / 4); x += THREADS) {
      const int row = x / (WIDE / 4), i = x % (WIDE / 4) * 4;
      if (row < ROWS) {
        const int m = m0 + row < rows ? m0 + row : rows - 1;
        copy_async<16>(&to.keys[row][i], normal + ((long long)(m / N * 3 + 1) * N + m % N) * D + i0 + i, true);
      } else {
        const int r = row - ROWS, t = m0 / N + r / PER < steps ? m0 / N + r / PER : steps - 1;
        copy_async<16>(&to.queries[r][i], normal + ((long long)t * 3 * N + s0 + r % PER) * D + i0 + i, true);
      }
    }
  };
  float images[FETCHED][8];
  const auto fetch_images = [&](int m0) {
#pragma unroll
    for (int y = 0; y < FETCHED; y++)
#pragma unroll
      for (int e = 0; e < 8; e++) {
        const int x = tid + y * THREADS, m = m0 + 16 * (x / (32 * DEEP)) + 2 * tq + (e & 1) + 8 * (e >> 2);
        images[y][e] = m < rows ? d_image[(long long)m * D + x / 32 % DEEP * 16 + 8 * (e >> 1 & 1) + g] : 0.f;
      }
  };
  const auto keep_images = [&](Stage& to) {
#pragma unroll
    for (int y = 0; y < FETCHED; y++) {
      pair_t found[4];
#pragma unroll
      for (int e = 0; e < 4; e++) found[e] = pair(images[y][2 * e], images[y][2 * e + 1]);
      store_pairs(to.images + 8 * (tid + y * THREADS), found);
    }
  };
  if (first < last) {
    fetch(sh.stage[0], first * ROWS);
    fetch_images(first * ROWS);
    keep_images(sh.stage[0]);
    fetched();
  }
  barrier();
  float sum[PER][DEEP][4] = {};
  for (int x = first; x < last; x++) {
    const bool more = x + 1 < last;
    const int m0 = x * ROWS, t0 = m0 / N;
    const Stage& at = sh.stage[x - first & 1];
    Stage& to = sh.stage[x - first + 1 & 1];
    if (more) {
      fetch(to, m0 + ROWS);
      fetch_images(m0 + ROWS);
    }
UNROLL
    for (int tile = 0; tile < TILES; tile++) {
      pair_t right[PER][2];
#pragma unroll
      for (int p = 0; p < 2; p++) {
        const int row = 16 * tile + 8 * p + 2 * tq, t = (m0 + row) / N - t0;
        const float k0 = at.keys[row][8 * warp + g], k1 = at.keys[row + 1][8 * warp + g];
#pragma unroll
        for (int s = 0; s < PER; s++) {
          const float q = at.queries[t * PER + s][8 * warp + g];
          right[s][p] = pair(tanh_of(q * k0), tanh_of(q * k1));
        }
      }
#pragma unroll
      for (int o = 0; o < DEEP; o++) {
        pair_t a[4];
        load_pairs(at.images + ((tile * DEEP + o) * 32 + lane) * 8, a);
#pragma unroll
        for (int s = 0; s < PER; s++) multiply16(sum[s][o], a, right[s]);
      }
    }
    if (more) keep_images(to);
    fetched();
    barrier();
  }
#pragma unroll
  for (int s = 0; s < PER; s++)
#pragma unroll
    for (int o = 0; o < DEEP; o++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const long long row = (long long)part * D + 16 * o + 8 * h + g;
        *(float2*)(d_transfer + (row * N + s0 + s) * D + i0 + 8 * warp + 2 * tq) = make_float2(sum[s][o][2 * h], sum[s][o][2 * h + 1]);
      }
}
