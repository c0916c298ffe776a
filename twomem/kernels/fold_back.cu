// Back from the relational memory M[s] = sum over steps t and keys j of K[t][j][s] (x) left[t][j] (`fold.cu` has the axes), given its
// gradient dM: to queries, keys, values and fades. A match K = tanh(q_s k_j) is made by the lane that is given its gradient.
//
// Rows m are keys of steps, in groups of 8 of one step; a warp has two groups, a block whole steps. All warps read
// dM[s] for one query after the other: as right operand with neighbours f and columns i (for the
// gradient of the matches), and with neighbours i and columns f (for that of the values).
#define THREADS (32 * WARPS)
#define DEEP (D / 16)
#define GROUPS ((REAL_N + 7) / 8)
#define NEAR (2 * WARPS / GROUPS)
// tiles that a warp fetches before it waits
#define FETCHED 2

struct Shared {
  elem across[D * D];
  elem left[PRECISION < 2 ? 8 : 16 * WARPS * D];  // left operands that registers have no place for
  elem down[TURN ? 8 : D * D];
  float keys[16 * WARPS][D + 8];
  float queries[NEAR][D + 8];
  float to_query[2 * WARPS][D + 16];  // of each group
  float to_fade[2 * WARPS];
};

#if FLOATS
typedef float given_t;
#else
typedef elem given_t;
#endif
DI float2 two(const given_t* from, int f, float by) {
#if REAL_D % 2
  const float x = f < REAL_D, y = f + 1 < REAL_D;
#if FLOATS
  return make_float2(x ? by * from[f] : 0.f, y ? by * from[f + 1] : 0.f);
#else
  return make_float2(x ? widen(from[f]) : 0.f, y ? widen(from[f + 1]) : 0.f);
#endif
#else
  if (f >= REAL_D) return make_float2(0.f, 0.f);
#if FLOATS
  const float2 x = *(const float2*)(from + f);
  return make_float2(by * x.x, by * x.y);
#else
  struct alignas(2 * sizeof(elem)) Two { elem x, y; };
  const Two x = *(const Two*)(from + f);
  return make_float2(widen(x.x), widen(x.y));
#endif
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, AT_ONCE) fold_back(
    const float* __restrict__ normal, const float* __restrict__ fades, const given_t* __restrict__ d_memory,
    const float* __restrict__ scale, float* __restrict__ d_normal, float* __restrict__ d_fades, int time, int start, int stop,
    int fade_stride, int parts) {
  SHARED_MEMORY(Shared, sh)
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3;
  const int b = blockIdx.x / parts, first = start + blockIdx.x % parts * NEAR;
  const long long begin = ((long long)b * time + first) * 3 * REAL_N * REAL_D;
  const float *from = normal + begin, by = scale ? *scale : 1.f, back = 1.f / by;
  const given_t* memory = d_memory + (long long)b * REAL_N * REAL_D * REAL_D;
  int step[2], key[2];
  bool in[2];
  float fade[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int group = 2 * warp + h;
    step[h] = group / GROUPS, key[h] = group % GROUPS * 8 + g;
    in[h] = step[h] < NEAR && first + step[h] < stop && key[h] < REAL_N;
    fade[h] = in[h] ? fades[(long long)b * fade_stride + first + step[h]] : 0.f;
    // a group beyond the last step has no queries of its own
    if (step[h] >= NEAR) step[h] = 0;
  }
  for (int x = tid; x < 16 * WARPS * D; x += THREADS) {
    const int m = x / D, i = x % D, group = m / 8, t = group / GROUPS, j = group % GROUPS * 8 + m % 8;
    const bool there = t < NEAR && first + t < stop && j < REAL_N && i < REAL_D;
    sh.keys[m][i] = there ? from[(t * 3 + 1) * REAL_N * REAL_D + j * REAL_D + i] : 0.f;
  }
#if PRECISION < 2
  pair_t left[DEEP][4];
#endif
#pragma unroll
  for (int x = 0; x < DEEP; x++) {
    pair_t made[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int h = e & 1, f = 16 * x + 8 * (e >> 1) + 2 * tq;
      const float* value = from + ((step[h] * 3 + 2) * REAL_N + key[h]) * REAL_D + f;
      made[e] = pair(in[h] && f < REAL_D ? fade[h] * value[0] : 0.f, in[h] && f + 1 < REAL_D ? fade[h] * value[1] : 0.f);
    }
#if PRECISION < 2
#pragma unroll
    for (int e = 0; e < 4; e++) left[x][e] = made[e];
#else
    store_pairs(sh.left + ((warp * DEEP + x) * 32 + lane) * 8, made);
#endif
  }
  float to_keys[2 * DEEP][4] = {}, to_left[2 * DEEP][4] = {};
  for (int s = 0; s < REAL_N; s++) {
    for (int x = tid; x < NEAR * D; x += THREADS) {
      const int t = x / D, i = x % D;
      sh.queries[t][i] = first + t < stop && i < REAL_D ? from[(t * 3 * REAL_N + s) * REAL_D + i] : 0.f;
    }
    for (int z0 = warp; z0 < DEEP * DEEP; z0 += FETCHED * WARPS) {
      float2 given[FETCHED][4];
#pragma unroll
      for (int n = 0; n < FETCHED; n++) {
        const int z = z0 + n * WARPS, y = z / DEEP, x = z % DEEP;
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const int i = 16 * y + 8 * (e >> 1) + g, f = 16 * x + 8 * (e & 1) + 2 * tq;
          given[n][e] = z < DEEP * DEEP && i < REAL_D ? two(memory + (s * REAL_D + i) * REAL_D, f, by) : make_float2(0.f, 0.f);
        }
      }
#pragma unroll
      for (int n = 0; n < FETCHED; n++) {
        const int z = z0 + n * WARPS;
        if (z < DEEP * DEEP) {
          pair_t x[4];
#pragma unroll
          for (int e = 0; e < 4; e++) x[e] = pair(given[n][e].x, given[n][e].y);
          store_pairs(sh.across + (z * 32 + lane) * 8, x);
#if !TURN
#pragma unroll
          for (int e = 0; e < 4; e++) x[e] = transposed(given[n][2 * (e & 1) + (e >> 1)].x, given[n][2 * (e & 1) + (e >> 1)].y);
          store_pairs(sh.down + (z * 32 + lane) * 8, x);
#endif
        }
      }
    }
    barrier();
#pragma unroll
    for (int y = 0; y < DEEP; y++) {
      float to_match[2][4] = {};
#pragma unroll
      for (int x = 0; x < DEEP; x++) {
        pair_t right[4];
        load_pairs(sh.across + ((y * DEEP + x) * 32 + lane) * 8, right);
#if PRECISION < 2
        const pair_t* a = left[x];
#else
        pair_t a[4];
        load_pairs(sh.left + ((warp * DEEP + x) * 32 + lane) * 8, a);
#endif
        multiply16(to_match[0], a, right);
        multiply16(to_match[1], a, right + 2);
      }
      pair_t matches[4];
      float part[8];
#pragma unroll
      for (int e = 0; e < 2; e++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int i = 16 * y + 8 * e + 2 * tq;
          const float2 k = *(const float2*)&sh.keys[16 * warp + 8 * h + g][i], q = *(const float2*)&sh.queries[step[h]][i];
          const float m0 = tanh_of(q.x * k.x), m1 = tanh_of(q.y * k.y);
          matches[2 * e + h] = pair(m0, m1);
          const float d0 = to_match[e][2 * h] * (1.f - m0 * m0), d1 = to_match[e][2 * h + 1] * (1.f - m1 * m1);
          to_keys[2 * y + e][2 * h] = fmaf(d0, q.x, to_keys[2 * y + e][2 * h]);
          to_keys[2 * y + e][2 * h + 1] = fmaf(d1, q.y, to_keys[2 * y + e][2 * h + 1]);
          part[4 * e + 2 * h] = d0 * k.x, part[4 * e + 2 * h + 1] = d1 * k.y;
        }
      // the sum over g of eight numbers: each time a lane hands over the half that it does not end with
      const bool is_e = g & 4, is_h = g & 2, is_second = g & 1;
      float four[4], both[2];
#pragma unroll
      for (int n = 0; n < 4; n++) four[n] = (is_e ? part[4 + n] : part[n]) + from_xor(is_e ? part[n] : part[4 + n], 16);
#pragma unroll
      for (int n = 0; n < 2; n++) both[n] = (is_h ? four[2 + n] : four[n]) + from_xor(is_h ? four[n] : four[2 + n], 8);
      const float whole = (is_second ? both[1] : both[0]) + from_xor(is_second ? both[0] : both[1], 4);
      sh.to_query[2 * warp + (g >> 1 & 1)][16 * y + 8 * (g >> 2) + 2 * tq + (g & 1)] = whole;
#pragma unroll
      for (int x = 0; x < DEEP; x++) {
        pair_t right[4];
#if TURN
        pair_t flat[4];
        load_pairs(sh.across + ((y * DEEP + x) * 32 + lane) * 8, flat);
#pragma unroll
        for (int e = 0; e < 4; e++) right[e] = transposed(flat[2 * (e & 1) + (e >> 1)].x, flat[2 * (e & 1) + (e >> 1)].y);
#else
        load_pairs(sh.down + ((y * DEEP + x) * 32 + lane) * 8, right);
#endif
        multiply16(to_left[2 * x], matches, right);
        multiply16(to_left[2 * x + 1], matches, right + 2);
      }
    }
    barrier();
    for (int x = tid; x < NEAR * REAL_D; x += THREADS) {
      const int t = x / REAL_D, i = x % REAL_D;
      float sum = 0.f;
      for (int u = 0; u < GROUPS; u++) sum += sh.to_query[t * GROUPS + u][i];
      if (first + t < stop) d_normal[begin + (t * 3 * REAL_N + s) * REAL_D + i] = back * sum;
    }
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float to_fade = 0.f;
    const int row = ((in[h] ? step[h] * 3 + 1 : 0) * REAL_N + (in[h] ? key[h] : 0)) * REAL_D;
    float *to_key = d_normal + begin + row, *to_value = to_key + REAL_N * REAL_D;
    const float* value = from + row + REAL_N * REAL_D;
#pragma unroll
    for (int x = 0; x < 2 * DEEP; x++) {
      const int f = 8 * x + 2 * tq;
      for (int e = 0; e < 2; e++)
        if (in[h] && f + e < REAL_D) {
          const float y = back * to_left[x][2 * h + e];
          to_fade = fmaf(y, value[f + e], to_fade);
          to_key[f + e] = back * to_keys[x][2 * h + e];
          to_value[f + e] = fade[h] * y;
        }
    }
    to_fade = over_g(over_tq(to_fade));
    if (lane == 0) sh.to_fade[2 * warp + h] = to_fade;
  }
  barrier();
  for (int t = tid; t < NEAR; t += THREADS) {
    float sum = 0.f;
    for (int u = 0; u < GROUPS; u++) sum += sh.to_fade[t * GROUPS + u];
    if (first + t < stop) d_fades[(long long)b * time + first + t] = sum;
  }
}
