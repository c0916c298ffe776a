// The gradient of the map that distils single steps: dG[r, i, f] = sum over pairs and queries of dy[p][s][r] M[p][s][i, f].
// `distil.cu` has the axes. A block has four rows i, a warp eight columns f; the memories of two pairs are made
// in registers again. Pairs are shared out over blockIdx.x % parts; each part writes a sum of its own.
#define WARPS (D / 8)
#define THREADS (32 * WARPS)
#define OUT (R / 16)

struct Shared {
  char unused;
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) distil_weight(
    const float* __restrict__ normal, const float* __restrict__ fades, const elem* __restrict__ d_found,
    float* __restrict__ d_weight, int batch, int time, int first, int count, int parts) {
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3;
  const int part = blockIdx.x % parts, i0 = 4 * (blockIdx.x / parts), all = batch * count, f = 8 * warp + g;
  float sum[4][OUT][4] = {};
  for (int two = part; 2 * two < all; two += parts) {
    pair_t matches[4][4], v[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int p = 2 * two + h;
      const bool in = p < all;
      const long long step = in ? (long long)(p / count) * time + first + p % count : 0;
      const float *rows = normal + step * 3 * REAL_N * REAL_D, *from = rows + 2 * REAL_N * REAL_D, fade = fades[step];
      const int j = 2 * tq;
      const bool has_q = in && g < REAL_N, has0 = in && j < REAL_N, has1 = in && j + 1 < REAL_N;
      v[h] = pair(has0 && f < REAL_D ? fade * from[j * REAL_D + f] : 0.f, has1 && f < REAL_D ? fade * from[(j + 1) * REAL_D + f] : 0.f);
#pragma unroll
      for (int x = 0; x < 4; x++) {
        const int i = i0 + x;
        const bool there = i < REAL_D;
        const float q = has_q && there ? rows[g * REAL_D + i] : 0.f;
        const float k0 = has0 && there ? rows[(REAL_N + j) * REAL_D + i] : 0.f, k1 = has1 && there ? rows[(REAL_N + j + 1) * REAL_D + i] : 0.f;
        matches[x][3 * h] = pair(tanh_of(q * k0), tanh_of(q * k1));
        matches[x][h + 1] = no_pair();
      }
    }
    pair_t y[OUT][4];
#pragma unroll
    for (int r = 0; r < OUT; r++) load_pairs(d_found + (((long long)two * OUT + r) * 32 + lane) * 8, y[r]);
#pragma unroll
    for (int x = 0; x < 4; x++) {
      float made[4] = {};
      multiply16(made, matches[x], v);
      const pair_t b[2] = {transposed(made[0], made[1]), transposed(made[2], made[3])};
#pragma unroll
      for (int r = 0; r < OUT; r++) multiply16(sum[x][r], y[r], b);
    }
  }
#pragma unroll
  for (int x = 0; x < 4; x++)
#pragma unroll
    for (int r = 0; r < OUT; r++)
      for (int e = 0; e < 4; e++) {
        const int o = 16 * r + 8 * (e >> 1) + g, i = i0 + x, to = 8 * warp + 2 * tq + (e & 1);
        if (o < REAL_R && i < REAL_D && to < REAL_D) d_weight[(((long long)part * REAL_R + o) * REAL_D + i) * REAL_D + to] = sum[x][r][e];
      }
}
