// Back from what single steps are distilled to: the gradients of their queries, keys, values and fades.
// `distil.cu` has the axes. For each row i of the memory, its gradient dM[s][f] = sum over r of dy[s][r] G[r, i, f]
// is made in registers, and meets V and K there.
#define WARPS 8
#define THREADS 256
#define PAIRS (2 * WARPS)
#define DEEP (D / 16)
#define OUT (R / 16)

struct Shared {
  float rows[PAIRS][16][D + 4];  // queries, then keys; their gradients take their place
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) distil_back(
    const float* __restrict__ normal, const float* __restrict__ fades, const elem* __restrict__ weight,
    const elem* __restrict__ d_found, float* __restrict__ d_rows, float* __restrict__ d_fades, int batch, int time,
    int first, int count) {
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
  // neighbours f of column j, and neighbours r of row s
  pair_t v[DEEP][2][2], y[OUT][4];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int p = start + 2 * warp + h;
    const bool in = p < all && g < REAL_N;
    const long long step = p < all ? (long long)(p / count) * time + first + p % count : 0;
    const float *from = normal + ((step * 3 + 2) * REAL_N + (in ? g : 0)) * REAL_D, fade = fades[step];
    const elem* back = d_found + (((long long)(p % count) * batch + p / count) * REAL_N + g) * R;
#pragma unroll
    for (int k = 0; k < DEEP; k++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int f = 16 * k + 8 * e + 2 * tq;
        v[k][h][e] = pair(in && f < REAL_D ? fade * from[f] : 0.f, in && f + 1 < REAL_D ? fade * from[f + 1] : 0.f);
      }
#pragma unroll
    for (int r = 0; r < OUT; r++)
#pragma unroll
      for (int e = 0; e < 2; e++) y[r][2 * e + h] = in ? load_pair(back + 16 * r + 8 * e + 2 * tq) : no_pair();
  }
  barrier();
  float to_values[2 * DEEP][4] = {};
  for (int i = 0; i < REAL_D; i++) {
    float q[2], k[2][2], match[2][2], to_match[2][4] = {};
    pair_t turned[4] = {no_pair(), no_pair(), no_pair(), no_pair()};
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const auto& rows = sh.rows[2 * warp + h];
      q[h] = rows[g][i], k[h][0] = rows[8 + 2 * tq][i], k[h][1] = rows[9 + 2 * tq][i];
      match[h][0] = tanh_of(q[h] * k[h][0]), match[h][1] = tanh_of(q[h] * k[h][1]);
      // rows j, neighbours s
      turned[3 * h] = pair(tanh_of(rows[2 * tq][i] * rows[8 + g][i]), tanh_of(rows[2 * tq + 1][i] * rows[8 + g][i]));
    }
#pragma unroll
    for (int x = 0; x < DEEP; x++) {
      float made[2][4] = {};
#pragma unroll
      for (int r = 0; r < OUT; r++) {
        pair_t b[4];
        load_pairs(weight + ((((long long)i * DEEP + x) * OUT + r) * 32 + lane) * 8, b);
        multiply16(made[0], y[r], b);
        multiply16(made[1], y[r], b + 2);
      }
      const pair_t a[4] = {pair(made[0][0], made[0][1]), pair(made[0][2], made[0][3]), pair(made[1][0], made[1][1]), pair(made[1][2], made[1][3])};
#pragma unroll
      for (int h = 0; h < 2; h++) multiply16(to_match[h], a, v[x][h]);
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const pair_t b[2] = {transposed(made[e][0], made[e][1]), transposed(made[e][2], made[e][3])};
        multiply16(to_values[2 * x + e], turned, b);
      }
    }
    warp_barrier();
#pragma unroll
    for (int h = 0; h < 2; h++) {
      auto& rows = sh.rows[2 * warp + h];
      const float e0 = to_match[h][2 * h] * (1.f - match[h][0] * match[h][0]), e1 = to_match[h][2 * h + 1] * (1.f - match[h][1] * match[h][1]);
      const float to_q = over_tq(e0 * k[h][0] + e1 * k[h][1]), to_k0 = over_g(e0 * q[h]), to_k1 = over_g(e1 * q[h]);
      if (tq == 0) rows[g][i] = to_q;
      if (g == 0) rows[8 + 2 * tq][i] = to_k0, rows[9 + 2 * tq][i] = to_k1;
    }
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int p = start + 2 * warp + h;
    const bool in = p < all && g < REAL_N;
    const long long step = p < all ? (long long)(p / count) * time + first + p % count : 0;
    const long long at = ((step * 3 + 2) * REAL_N + (in ? g : 0)) * REAL_D;
    const float fade = fades[step];
    float to_fade = 0.f;
#pragma unroll
    for (int x = 0; x < 2 * DEEP; x++)
      for (int e = 0; e < 2; e++) {
        const int f = 8 * x + 2 * tq + e;
        if (in && f < REAL_D) {
          to_fade = fmaf(to_values[x][2 * h + e], normal[at + f], to_fade);
          d_rows[at + f] = fade * to_values[x][2 * h + e];
        }
      }
    to_fade = over_g(over_tq(to_fade));
    if (lane == 0 && p < all) d_fades[step] = to_fade;
  }
  barrier();
  for (int x = tid; x < PAIRS * 16 * D; x += THREADS) {
    const int p = start + x / (16 * D), m = x / D % 16, s = m & 7, i = x % D;
    if (p < all && s < REAL_N && i < REAL_D)
      d_rows[(((long long)(p / count) * time + first + p % count) * 3 * REAL_N + (m >> 3) * REAL_N + s) * REAL_D + i] = sh.rows[x / (16 * D)][m][i];
  }
}
