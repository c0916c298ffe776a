// What single steps are distilled to: y[p][s] = sum over i, f of G[., i, f] (K[s] (x) V)[i, f], where a pair p
// is a step of a sequence, K[j][s] = tanh(q_s k_j) and V its values, times what of them is left. No memory is written: a warp
// makes that of two pairs, row by row, in the registers from which the tensor cores read it.
//
// Rows of a tile of 16: queries s of one pair, then of the other. N is 8; D and R are whole tiles.
#define WARPS 8
#define THREADS 256
#define PAIRS (2 * WARPS)
#define DEEP (D / 16)
#define OUT (R / 8)

struct Shared {
  float rows[PAIRS][16][D + 4];  // queries, then keys
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) distil(
    const float* __restrict__ normal, const float* __restrict__ fades, const elem* __restrict__ weight,
    float* __restrict__ found, int batch, int time, int first, int count) {
  SHARED_MEMORY(Shared, sh)
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3;
  const int all = batch * count, start = blockIdx.x * PAIRS;
  for (int x = tid; x < PAIRS * 16 * D; x += THREADS) {
    const int p = start + x / (16 * D), m = x / D % 16, s = m & 7, i = x % D;
    float value = 0.f;
    if (p < all && s < REAL_N && i < REAL_D)
      value = normal[(((long long)(p / count) * time + first + p % count) * 3 * REAL_N + (m >> 3) * REAL_N + s) * REAL_D + i];
    sh.rows[x / (16 * D)][m][i] = value;
  }
  // neighbours j of column f, for both pairs
  pair_t v[2 * DEEP][2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int p = start + 2 * warp + h;
    const long long step = p < all ? (long long)(p / count) * time + first + p % count : 0;
    const float *from = normal + (step * 3 + 2) * REAL_N * REAL_D, fade = fades[step];
#pragma unroll
    for (int x = 0; x < 2 * DEEP; x++) {
      const int f = 8 * x + g, j = 2 * tq;
      const bool in = p < all && f < REAL_D;
      v[x][h] = pair(in && j < REAL_N ? fade * from[j * REAL_D + f] : 0.f, in && j + 1 < REAL_N ? fade * from[(j + 1) * REAL_D + f] : 0.f);
    }
  }
  barrier();
  float sum[OUT][4] = {};
  for (int i = 0; i < REAL_D; i++) {
    pair_t matches[4] = {no_pair(), no_pair(), no_pair(), no_pair()};
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const auto& rows = sh.rows[2 * warp + h];
      const float q = rows[g][i], k0 = rows[8 + 2 * tq][i], k1 = rows[9 + 2 * tq][i];
      matches[3 * h] = pair(tanh_of(q * k0), tanh_of(q * k1));
    }
#pragma unroll
    for (int k = 0; k < DEEP; k++) {
      float made[2][4] = {};
      multiply16(made[0], matches, v[2 * k]);
      multiply16(made[1], matches, v[2 * k + 1]);
      const pair_t a[4] = {pair(made[0][0], made[0][1]), pair(made[0][2], made[0][3]), pair(made[1][0], made[1][1]), pair(made[1][2], made[1][3])};
#pragma unroll
      for (int r = 0; r < OUT; r += 2) {
        pair_t b[4];
        load_pairs(weight + ((((long long)i * DEEP + k) * (OUT / 2) + r / 2) * 32 + lane) * 8, b);
        multiply16(sum[r], a, b);
        multiply16(sum[r + 1], a, b + 2);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int p = start + 2 * warp + h;
    if (p < all && g < REAL_N)
#pragma unroll
      for (int r = 0; r < OUT; r++)
        for (int e = 0; e < 2; e++) {
          const int o = 8 * r + 2 * tq + e;
          // batch is the faster axis of the two
          if (o < REAL_R) found[(((long long)(p % count) * batch + p / count) * REAL_N + g) * REAL_R + o] = sum[r][2 * h + e];
        }
  }
}
