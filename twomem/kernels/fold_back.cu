// Back from the relational memory M[s] = sum over steps t and keys j of K[t][j][s] (x) left[t][j] (`fold.cu` has the axes), given its
// gradient dM: to queries, keys, values and fades. A match K = tanh(q_s k_j) is made by the lane that is given its gradient.
//
// Rows m are keys of steps, in groups of 8 of one step; a warp has two groups, a block whole steps. All warps read dM[s] for one
// query after the other, from rows i of columns f: as right operand with neighbours f and columns i (for the gradient of the
// matches), and with neighbours i and columns f (for that of the values). Where there is room for two, the next one is
// brought there meanwhile, 16 rows at a time.
#define THREADS (32 * WARPS)
#define DEEP (D / 16)
#define GROUPS ((REAL_N + 7) / 8)
#define NEAR (2 * WARPS / GROUPS)
#define LD (D + 8)
#define UNIT (REAL_D % 4 == 0 ? 4 : REAL_D % 2 == 0 ? 2 : 1)
// operands are copied as they are, if their rows begin at multiples of 16 bytes
#define AS_IS (!FLOATS && REAL_D % 8 == 0)
#define PIECE (AS_IS ? 8 : REAL_D % 2 ? 1 : 4)
#define PIECES ((16 * REAL_D / PIECE + THREADS - 1) / THREADS)

// whether there are registers for the next rows' products while those of these are made
#define EARLY (PRECISION < 2 || D <= 96)

#if FLOATS
typedef float given_t;
DI float value_of(given_t x, float by) { return by * x; }
#else
typedef elem given_t;
DI float value_of(given_t x, float) { return widen(x); }
#endif
struct alignas(PIECE * sizeof(given_t)) Piece { given_t x[PIECE]; };

struct Shared {
  elem given[BUFFERS][D][LD];
  elem left[PRECISION < 2 ? 8 : 16 * WARPS * D];  // left operands that registers have no place for
  float keys[16 * WARPS][D + 8];
  float queries[2][NEAR][D + 8];
  float to_query[2][GROUPS > 1 ? 2 * WARPS : 1][GROUPS > 1 ? D + 16 : 4];  // of each group, where a step has many
  float to_fade[2 * WARPS];
};

extern "C" __global__ void __launch_bounds__(THREADS, AT_ONCE) fold_back(
    const float* __restrict__ normal, const float* __restrict__ fades, const given_t* __restrict__ d_memory,
    const float* __restrict__ scale, float* __restrict__ d_normal, float* __restrict__ d_fades, int time, int start, int stop,
    int fade_stride, int parts) {
  SHARED_MEMORY(Shared, sh)
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3;
  const int b = blockIdx.x / parts, first = start + blockIdx.x % parts * NEAR, near = stop - first < NEAR ? stop - first : NEAR;
  const long long begin = ((long long)b * time + first) * 3 * REAL_N * REAL_D;
  const float *from = normal + begin, by = scale ? *scale : 1.f, back = 1.f / by;
  const given_t* memory = d_memory + (long long)b * REAL_N * REAL_D * REAL_D;

  // 16 rows of what is given are one piece of memory, which the threads share out
  Piece fetching[PIECES];
  const auto fetch = [&](int s, int y) {
    const unsigned thread = anew(threadIdx.x), end = (REAL_D - 16 * y < 16 ? REAL_D - 16 * y : 16) * REAL_D;
    const given_t* rows = memory + (s * REAL_D + 16 * y) * REAL_D;
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
      const unsigned z = (thread + k * THREADS) * PIECE;
#if AS_IS
      if ((k + 1) * THREADS * PIECE <= end || z < end) copy_async<16>(&sh.given[s % BUFFERS][16 * y + z / REAL_D][z % REAL_D], rows + z, true);
#else
      if ((k + 1) * THREADS * PIECE <= end || z < end) fetching[k] = *(const Piece*)(rows + z);
#endif
    }
  };
  const auto keep = [&](int s, int y) {
#if !AS_IS
    const unsigned thread = anew(threadIdx.x), end = (REAL_D - 16 * y < 16 ? REAL_D - 16 * y : 16) * REAL_D;
    elem(*rows)[LD] = sh.given[s % BUFFERS] + 16 * y;
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
      const unsigned z = (thread + k * THREADS) * PIECE, row = z / REAL_D, f = z % REAL_D;
      if ((k + 1) * THREADS * PIECE <= end || z < end) {
        float x[PIECE];
#pragma unroll
        for (int e = 0; e < PIECE; e++) x[e] = value_of(fetching[k].x[e], by);
#if REAL_D % 4 == 0
        store4(&rows[row][f], x);
#elif REAL_D % 2 == 0
        const bool next = f + 2 == REAL_D;
        store_pair(&rows[row][f], pair(x[0], x[1]));
        store_pair(&rows[row + next][next ? 0 : f + 2], pair(x[2], x[3]));
#else
        rows[row][f] = narrow(x[0]);
#endif
      }
    }
#endif
  };
  const auto fetch_queries = [&](int s) {
    const unsigned thread = anew(threadIdx.x), column = thread % 32 * UNIT;
    for (int t = thread / 32; t < NEAR; t += WARPS)
#pragma unroll
      for (int n = 0; n < D; n += 32 * UNIT) {
        const int i = column + n;
        const bool there = t < near && i < REAL_D;
        if (i < D) copy_async<4 * UNIT>(&sh.queries[s & 1][t][i], from + (there ? (t * 3 * REAL_N + s) * REAL_D + i : 0), there);
      }
  };
  // a row of a lane: where its key stands, if there is one
  const auto place_of = [&](int h, bool& in) {
    const int thread = anew(threadIdx.x), group = 2 * (thread / 32) + h, t = group / GROUPS, j = group % GROUPS * 8 + thread % 32 / 4;
    in = t < near && j < REAL_N;
    return in ? ((t * 3 + 1) * REAL_N + j) * REAL_D : 0;
  };
  const auto fade_of = [&](int h) { return fades[(long long)b * fade_stride + first + (2 * (anew(threadIdx.x) / 32) + h) / GROUPS]; };

  for (int m = warp; m < 16 * WARPS; m += WARPS) {
    const int t = m / 8 / GROUPS, j = m / 8 % GROUPS * 8 + m % 8;
#pragma unroll
    for (int i = lane * UNIT; i < D; i += 32 * UNIT) {
      const bool there = t < near && j < REAL_N && i < REAL_D;
      copy_async<4 * UNIT>(&sh.keys[m][i], from + (there ? ((t * 3 + 1) * REAL_N + j) * REAL_D + i : 0), there);
    }
  }
  fetch_queries(0);
  // what is beyond the width stays zero
  for (int x = tid; x < BUFFERS * (D - REAL_D) * D; x += THREADS) {
    const int y = x / BUFFERS, n = x % BUFFERS;
    sh.given[n][y % D][REAL_D + y / D] = narrow(0.f);
    sh.given[n][REAL_D + y / D][y % D] = narrow(0.f);
  }
UNROLL
  for (int y = 0; y < DEEP; y++) {
    fetch(0, y);
    keep(0, y);
  }
#if PRECISION < 2
  pair_t left[DEEP][4];
#endif
  {
    bool in[2];
    const float* value[2];
    float fade[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      value[h] = from + place_of(h, in[h]) + REAL_N * REAL_D;
      fade[h] = in[h] ? fade_of(h) : 0.f;
    }
#pragma unroll
    for (int x = 0; x < DEEP; x++) {
      pair_t made[4];
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int h = e & 1, f = 16 * x + 8 * (e >> 1) + 2 * tq;
#if REAL_D % 2
        made[e] = pair(in[h] && f < REAL_D ? fade[h] * value[h][f] : 0.f, in[h] && f + 1 < REAL_D ? fade[h] * value[h][f + 1] : 0.f);
#else
        const float2 v = in[h] && f < REAL_D ? *(const float2*)(value[h] + f) : make_float2(0.f, 0.f);
        made[e] = pair(fade[h] * v.x, fade[h] * v.y);
#endif
      }
#if PRECISION < 2
#pragma unroll
      for (int e = 0; e < 4; e++) left[x][e] = made[e];
#else
      store_pairs(sh.left + ((warp * DEEP + x) * 32 + lane) * 8, made);
#endif
    }
  }
  // a group beyond the last step has no queries of its own
  int step[2];
#pragma unroll
  for (int h = 0; h < 2; h++) step[h] = (2 * warp + h) / GROUPS < NEAR ? (2 * warp + h) / GROUPS : 0;
  fetched();
  barrier();

  float to_keys[2 * DEEP][4] = {}, to_left[2 * DEEP][4] = {};
  for (int s = 0; s < REAL_N; s++) {
    const bool more = s + 1 < REAL_N;
    const elem(*given)[LD] = sh.given[s % BUFFERS];
    const auto to_match_of = [&](float (*to_match)[4], int y, int x) {
      pair_t right[4];
      load_rights(right, &given[16 * y][16 * x], LD);
#if PRECISION < 2
      const pair_t* a = left[x];
#else
      pair_t a[4];
      load_pairs(sh.left + ((warp * DEEP + x) * 32 + lane) * 8, a);
#endif
      multiply16(to_match[0], a, right);
      multiply16(to_match[1], a, right + 2);
    };
    if (more) fetch_queries(s + 1);
    // where a lane brings the sums over keys that it ends with
    const int own = anew(threadIdx.x), own_group = own / 32 * 2 + (own >> 3 & 1), own_i = 8 * (own >> 4 & 1) + 2 * (own & 3) + (own >> 2 & 1);
#if GROUPS > 1
    float* to_query = &sh.to_query[s & 1][own_group][own_i];
#else
    float* to_query = d_normal + begin + (own_group * 3 * REAL_N + s) * REAL_D + own_i;
#endif
    float to_match[2][4] = {};
#pragma unroll
    for (int x = 0; x < DEEP; x++)
      if (EARLY) to_match_of(to_match, 0, x);
#pragma unroll
    for (int y = 0; y < DEEP; y++) {
#pragma unroll
      for (int x = 0; x < DEEP; x++)
        if (!EARLY) to_match_of(to_match, y, x);
      if (BUFFERS > 1 && more) fetch(s + 1, y);
      pair_t matches[4];
      float part[8];
#pragma unroll
      for (int e = 0; e < 2; e++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int i = 16 * y + 8 * e + 2 * tq;
          const float2 k = *(const float2*)&sh.keys[16 * warp + 8 * h + g][i], q = *(const float2*)&sh.queries[s & 1][step[h]][i];
          const float m0 = tanh_of(q.x * k.x), m1 = tanh_of(q.y * k.y);
          matches[2 * e + h] = pair(m0, m1);
          const float d0 = to_match[e][2 * h] * (1.f - m0 * m0), d1 = to_match[e][2 * h + 1] * (1.f - m1 * m1);
          to_keys[2 * y + e][2 * h] = fmaf(d0, q.x, to_keys[2 * y + e][2 * h]);
          to_keys[2 * y + e][2 * h + 1] = fmaf(d1, q.y, to_keys[2 * y + e][2 * h + 1]);
          part[4 * e + 2 * h] = d0 * k.x, part[4 * e + 2 * h + 1] = d1 * k.y;
          to_match[e][2 * h] = to_match[e][2 * h + 1] = 0.f;
        }
      // the sum over g of eight numbers: each time a lane hands over the half that it does not end with
      const bool is_e = g & 4, is_h = g & 2, is_second = g & 1;
      float four[4], both[2];
#pragma unroll
      for (int n = 0; n < 4; n++) four[n] = (is_e ? part[4 + n] : part[n]) + from_xor(is_e ? part[n] : part[4 + n], 16);
#pragma unroll
      for (int n = 0; n < 2; n++) both[n] = (is_h ? four[2 + n] : four[n]) + from_xor(is_h ? four[n] : four[2 + n], 8);
      const float whole = (is_second ? both[1] : both[0]) + from_xor(is_second ? both[0] : both[1], 4);
#if GROUPS > 1
      to_query[16 * y] = whole;
#else
      if (own_group < near && 16 * y + own_i < REAL_D) to_query[16 * y] = back * whole;
#endif
      // the products of the next rows have no place to wait for: they come between those of these
#pragma unroll
      for (int x = 0; x < DEEP; x++) {
        pair_t right[4];
        load_turned(right, &given[16 * y][16 * x], LD);
        if (EARLY && y + 1 < DEEP) to_match_of(to_match, y + 1, x);
        multiply16(to_left[2 * x], matches, right);
        multiply16(to_left[2 * x + 1], matches, right + 2);
      }
      if (BUFFERS > 1 && more) keep(s + 1, y);
    }
#if BUFFERS == 1
    barrier();
    if (more)
UNROLL
      for (int y = 0; y < DEEP; y++) {
        fetch(s + 1, y);
        keep(s + 1, y);
      }
#endif
    fetched();
    barrier();
#if GROUPS > 1
    for (int t = anew(threadIdx.x) / 32; t < near; t += WARPS)
      for (int i = lane; i < REAL_D; i += 32) {
        float sum = 0.f;
#pragma unroll
        for (int u = 0; u < GROUPS; u++) sum += sh.to_query[s & 1][t * GROUPS + u][i];
        d_normal[begin + (t * 3 * REAL_N + s) * REAL_D + i] = back * sum;
      }
#endif
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    bool in;
    const int row = place_of(h, in);
    const float *value = from + row + REAL_N * REAL_D, fade = in ? fade_of(h) : 0.f;
    float *to_key = d_normal + begin + row, *to_value = to_key + REAL_N * REAL_D, to_fade = 0.f;
#pragma unroll
    for (int x = 0; x < 2 * DEEP; x++) {
      const int f = 8 * x + 2 * tq;
      float* y = to_left[x] + 2 * h;
      y[0] *= back, y[1] *= back;
#if REAL_D % 2
      for (int e = 0; e < 2; e++)
        if (in && f + e < REAL_D) to_fade = fmaf(y[e], value[f + e], to_fade);
#else
      if (in && f < REAL_D) {
        const float2 v = *(const float2*)(value + f);
        to_fade = fmaf(y[0], v.x, fmaf(y[1], v.y, to_fade));
      }
#endif
    }
#pragma unroll
    for (int x = 0; x < 2 * DEEP; x++) {
      const int f = 8 * x + 2 * tq;
      const float *y = to_left[x] + 2 * h, *k = to_keys[x] + 2 * h;
#if REAL_D % 2
      for (int e = 0; e < 2; e++)
        if (in && f + e < REAL_D) to_key[f + e] = back * k[e], to_value[f + e] = fade * y[e];
#else
      if (in && f < REAL_D) {
        *(float2*)(to_key + f) = make_float2(back * k[0], back * k[1]);
        *(float2*)(to_value + f) = make_float2(fade * y[0], fade * y[1]);
      }
#endif
    }
    to_fade = over_g(over_tq(to_fade));
    if (lane == 0) sh.to_fade[2 * warp + h] = to_fade;
  }
  barrier();
  for (int t = tid; t < near; t += THREADS) {
    float sum = 0.f;
    for (int u = 0; u < GROUPS; u++) sum += sh.to_fade[t * GROUPS + u];
    d_fades[(long long)b * time + first + t] = sum;
  }
}
