// What later steps give back where they read what earlier ones added. Step u reads with address[u][s] and cue[u][i] what step t < u
// added, K[t][j][s][i] = tanh(q_s k_j), and has a coefficient c[t][u][j] for each key of it. The gradients are
//   to_cue[u][i]     = sum over t, j, s of address[u][s] c[t][u][j] K[t][j][s][i]
//   to_address[u][s] = sum over t, j, i of cue[u][i]     c[t][u][j] K[t][j][s][i]
// A block has a sequence, a warp eight columns i; it makes the matches of two keys at a time, in registers.
#define WARPS (D / 8)
#define THREADS (32 * WARPS)
#define GROUPS (N / 8)
#define TILES (STEPS / 16)

struct Stage {
  float keys[N][D + 4];
  float queries[N][D + 4];
  float met[STEPS][N + 4];
};
struct Shared {
  union {
    Stage stage[2];
    float sums[WARPS][STEPS][N];
  };
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) later(
    const float* __restrict__ normal, const float* __restrict__ met, const float* __restrict__ address,
    const float* __restrict__ cue, const float* __restrict__ kept, float* __restrict__ to_cue,
    float* __restrict__ to_address, int time) {
  SHARED_MEMORY(Shared, sh)
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3, i0 = 8 * warp;
  const long long first = (long long)blockIdx.x * time;
  const auto fetch = [&](Stage& to, int t) {
    const float *rows = normal + (first + t) * 3 * N * D, *coefficients = met + (first + t) * STEPS * N;
    for (int x = tid; x < N * D / 4; x += THREADS) {
      const int j = x / (D / 4), i = x % (D / 4) * 4;
      copy_async<16>(&to.queries[j][i], rows + j * D + i, true);
      copy_async<16>(&to.keys[j][i], rows + (N + j) * D + i, true);
    }
    for (int x = tid; x < STEPS * N / 4; x += THREADS) copy_async<16>(&to.met[x / (N / 4)][x % (N / 4) * 4], coefficients + 4 * x, true);
  };
  // rows u: neighbours s, and neighbours i
  pair_t where[TILES][GROUPS][2], heard[TILES][2];
#pragma unroll
  for (int m = 0; m < TILES; m++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int u = 16 * m + 8 * h + g;
      const bool in = u < time;
      const float *a = address + (first + u) * N + 2 * tq, *c = cue + (first + u) * D + i0 + 2 * tq;
#pragma unroll
      for (int s = 0; s < GROUPS; s++) where[m][s][h] = in ? pair(a[8 * s], a[8 * s + 1]) : no_pair();
      heard[m][h] = in ? pair(c[0], c[1]) : no_pair();
    }
  float of_cue[TILES][4] = {}, of_address[TILES][GROUPS][4] = {};
  fetch(sh.stage[0], 0);
  fetched();
  barrier();
  for (int t = 0; t + 1 < time; t++) {
    const Stage& at = sh.stage[t & 1];
    if (t + 2 < time) fetch(sh.stage[t + 1 & 1], t + 1);
    float q[GROUPS][2], left[TILES][2];
#pragma unroll
    for (int s = 0; s < GROUPS; s++)
#pragma unroll
      for (int e = 0; e < 2; e++) q[s][e] = at.queries[8 * s + 2 * tq + e][i0 + g];
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int u = 16 * m + 8 * h + g;
        left[m][h] = u <= t || u >= time ? 0.f : kept ? kept[u - t - 1] : 1.f;
      }
    for (int j = 0; j < N; j += 2) {
      // neighbours s of column i, and neighbours i of column s, for both keys
      pair_t matches[2 * GROUPS], turned[GROUPS][2];
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const float k = at.keys[j + e][i0 + g];
#pragma unroll
        for (int s = 0; s < GROUPS; s++) {
          const float x = tanh_of(q[s][0] * k), y = tanh_of(q[s][1] * k);
          matches[e * GROUPS + s] = pair(x, y);
          turned[s][e] = transposed(x, y);
        }
      }
#pragma unroll
      for (int m = 0; m < TILES; m++)
        if (t < 16 * m + 15) {
          pair_t by[2][2], a[4];
#pragma unroll
          for (int e = 0; e < 2; e++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
              // what stands there for steps that do not read this one is no number of theirs
              const float x = left[m][h] != 0.f ? left[m][h] * at.met[16 * m + 8 * h + g][j + e] : 0.f;
              by[e][h] = pair(x, x);
              a[2 * e + h] = product(heard[m][h], by[e][h]);
            }
#pragma unroll
          for (int s = 0; s < GROUPS; s++) multiply16(of_address[m][s], a, turned[s]);
          if (to_cue)
#pragma unroll
            for (int x = 0; x < 2 * GROUPS; x += 2) {
              // two groups, of one key or of both
#pragma unroll
              for (int e = 0; e < 2; e++)
#pragma unroll
                for (int h = 0; h < 2; h++) a[2 * e + h] = product(where[m][(x + e) % GROUPS][h], by[(x + e) / GROUPS][h]);
              multiply16(of_cue[m], a, matches + x);
            }
        }
    }
    fetched();
    barrier();
  }
  // no stage is read any more
  barrier();
#pragma unroll
  for (int m = 0; m < TILES; m++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int u = 16 * m + 8 * (e >> 1) + g, more = 2 * tq + (e & 1);
      if (to_cue && u < time) to_cue[(first + u) * D + i0 + more] = of_cue[m][e];
#pragma unroll
      for (int s = 0; s < GROUPS; s++) sh.sums[warp][u][8 * s + more] = of_address[m][s][e];
    }
  barrier();
  for (int x = tid; x < time * N; x += THREADS) {
    float sum = 0.f;
    for (int w = 0; w < WARPS; w++) sum += sh.sums[w][x / N][x % N];
    to_address[first * N + x] = sum;
  }
}
