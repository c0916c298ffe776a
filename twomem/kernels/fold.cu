// The relational memory after some steps, M[s] = carry * old[s] + sum over steps t and keys j of K[t][j][s] (x) left[t][j],
// where K[t][j][s] = tanh(q_s k_j) and `left` is what is left of the values. The matches are made in the registers from which
// the tensor cores read them, each once.
//
// A row m is a key of a step, one step after the other. A warp has 16 rows i of PER queries, a block 16 * SPAN rows i, mostly all,
// of SETS * PER queries: a pass. Rows are staged 16 * TILES at a time; while they are multiplied, the next are fetched.
#define DEEP (D / 16)
#define WARPS (SPAN * SETS)
#define THREADS (32 * WARPS)
#define HELD (SETS * PER)
#define ROWS (16 * TILES)
// of how many steps ROWS rows in a row can be
#define NEAR (ROWS % REAL_N ? (ROWS + REAL_N - 2) / REAL_N + 1 : ROWS / REAL_N)
#define UNIT (REAL_D % 4 == 0 ? 4 : REAL_D % 2 == 0 ? 2 : 1)
#define LEFT_LD (PRECISION < 2 ? D + 8 : D + 4)
// eight rows of a result are one piece of memory, copied 16 bytes at a time where it begins at a multiple of that
#define PIECE (REAL_D % 2 ? 1 : 4)
#define OUT_LD (REAL_D % 4 ? REAL_D : D + 8)
#define PIECES ((8 * REAL_D / PIECE + 31) / 32)
#if PRECISION < 2
#define SOME_TILES _Pragma("unroll 2")
#else
#define SOME_TILES _Pragma("unroll 1")
#endif

struct Stage {
  float keys[ROWS][D + 4];
  float queries[NEAR * HELD][D + 4];
  elem left[ROWS][LEFT_LD];
};
struct Shared {
  Stage stage[2];
  float values[ROWS][D];  // each is made an operand by the thread that fetched it
  float out[WARPS][8 * OUT_LD];
  float fades[ROWS];
};

#if REAL_D % 2
DI void read_piece(float* to, const float* from) { to[0] = from[0]; }
DI void write_piece(float* to, const float* from) { to[0] = from[0]; }
DI void narrow_piece(elem* to, const float* from) { to[0] = narrow(from[0]); }
#else
DI void read_piece(float* to, const float* from) {
  const float4 x = *(const float4*)from;
  to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}
DI void write_piece(float* to, const float* from) { *(float4*)to = make_float4(from[0], from[1], from[2], from[3]); }
DI void narrow_piece(elem* to, const float* from) { store4(to, from); }
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1) fold(
    const float* __restrict__ normal, const float* __restrict__ fades, const float* __restrict__ old,
    const float* __restrict__ carry, float* __restrict__ found, elem* __restrict__ operand, int time, int start,
    int stop, int fade_stride, int old_stride, int carry_stride, int groups, int passes) {
  SHARED_MEMORY(Shared, sh)
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3;
  const int block = blockIdx.x / (DEEP / SPAN), cut = blockIdx.x % (DEEP / SPAN);
  const int b = block / groups, each = (passes + groups - 1) / groups, first = block % groups * each;
  const int last = first + each < passes ? first + each : passes;
  const int rows = (stop - start) * REAL_N, chunks = (rows + ROWS - 1) / ROWS, work = (last - first) * chunks;
  const float *from = normal + ((long long)b * time + start) * 3 * REAL_N * REAL_D, *fade = fades + (long long)b * fade_stride + start;
  const int i0 = 16 * (cut * SPAN + warp % SPAN), set = warp / SPAN;

  // a warp copies whole rows, so that where a row stands is found once. Keys and queries of rows that there are not
  // are those of the last, and meet values of zero
  const auto fetch = [&](Stage& to, unsigned m0) {
    const unsigned thread = anew(threadIdx.x), column = thread % 32 * UNIT;
    for (unsigned row = thread / 32; row < ROWS; row += WARPS) {
      const bool there = m0 + row < rows;
      const unsigned m = there ? m0 + row : rows - 1, t = m / REAL_N;
      const float* key = from + (m + (2 * t + 1) * REAL_N) * REAL_D + column;
      float *key_to = &to.keys[row][column], *value_to = &sh.values[row][column];
#pragma unroll
      for (int i = 0; i < REAL_D; i += 32 * UNIT)
        if (column + i < REAL_D) {
          copy_async<4 * UNIT>(key_to + i, key + i, true);
          copy_async<4 * UNIT>(value_to + i, key + REAL_N * REAL_D + i, there);
        }
      if (column == 0) copy_async<4>(&sh.fades[row], fade + t, true);
    }
  };
  const auto fetch_queries = [&](Stage& to, int pass, unsigned m0) {
    const unsigned thread = anew(threadIdx.x), column = thread % 32 * UNIT, t0 = m0 / REAL_N, end = stop - start - 1;
    for (unsigned row = thread / 32; row < NEAR * HELD; row += WARPS) {
      const unsigned t = t0 + row / HELD < end ? t0 + row / HELD : end, s = pass * HELD + row % HELD;
      const float* query = from + (t * 3 * REAL_N + (s < REAL_N ? s : REAL_N - 1)) * REAL_D + column;
      float* query_to = &to.queries[row][column];
#pragma unroll
      for (int i = 0; i < REAL_D; i += 32 * UNIT)
        if (column + i < REAL_D) copy_async<4 * UNIT>(query_to + i, query + i, true);
    }
  };
  const auto keep_values = [&](Stage& to) {
    const unsigned thread = anew(threadIdx.x), column = thread % 32 * UNIT;
    for (unsigned row = thread / 32; row < ROWS; row += WARPS) {
      const float left = sh.fades[row], *value = &sh.values[row][column];
      elem* place = &to.left[row][column];
#pragma unroll
      for (int i = 0; i < REAL_D; i += 32 * UNIT)
        if (column + i < REAL_D) {
#if REAL_D % 4 == 0
          const float4 x = *(const float4*)(value + i);
          const float kept[4] = {left * x.x, left * x.y, left * x.z, left * x.w};
          store4(place + i, kept);
#elif REAL_D % 2 == 0
          const float2 x = *(const float2*)(value + i);
          store_pair(place + i, pair(left * x.x, left * x.y));
#else
          place[i] = narrow(left * value[i]);
#endif
        }
    }
  };

  if (work > 0) {
    fetch(sh.stage[0], 0);
    fetch_queries(sh.stage[0], first, 0);
    fetched();
    warp_barrier();
    keep_values(sh.stage[0]);
  }
  barrier();
  float sum[PER][2 * DEEP][4] = {};
  int pass = first, chunk = 0;
  for (int x = 0; x < work; x++) {
    const bool ends = chunk == chunks - 1, more = x + 1 < work;
    const unsigned next = ends ? 0 : (chunk + 1) * ROWS, m0 = chunk * ROWS, t0 = m0 / REAL_N;
    // keys and values that are all there stay for the next queries
    const Stage &at = sh.stage[x & 1], &held = sh.stage[chunks > 1 ? x & 1 : 0];
    Stage& to = sh.stage[x + 1 & 1];
    if (more) {
      if (chunks > 1) fetch(to, next);
      fetch_queries(to, ends ? pass + 1 : pass, next);
    }
    const int tiles = rows - m0 < ROWS ? (rows - m0 + 15) / 16 : TILES;
SOME_TILES
    for (int tile = 0; tile < tiles; tile++) {
      pair_t a[PER][4];
#pragma unroll
      for (int p = 0; p < 2; p++) {
        const unsigned row = 16 * tile + 8 * p + 2 * tq, t = (m0 + row) / REAL_N - t0, u = REAL_N % 2 ? (m0 + row + 1) / REAL_N - t0 : t;
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int i = i0 + 8 * h + g;
          const float k0 = held.keys[row][i], k1 = held.keys[row + 1][i];
#pragma unroll
          for (int s = 0; s < PER; s++)
            a[s][2 * p + h] = pair(tanh_of(at.queries[t * HELD + set * PER + s][i] * k0), tanh_of(at.queries[u * HELD + set * PER + s][i] * k1));
        }
      }
#pragma unroll
      for (int f = 0; f < DEEP; f++) {
        pair_t right[4];
        load_turned(right, &held.left[16 * tile][16 * f], LEFT_LD);
#pragma unroll
        for (int s = 0; s < PER; s++) multiply16(sum[s][2 * f], a[s], right);
#pragma unroll
        for (int s = 0; s < PER; s++) multiply16(sum[s][2 * f + 1], a[s], right + 2);
      }
    }
    if (more && chunks > 1) {
      fetched();
      warp_barrier();
      keep_values(to);
    }
    if (ends) {
      // found again, so that no register keeps it meanwhile
      const long long row = anew(blockIdx.x) / (DEEP / SPAN) / groups;
      const float left = old ? carry[row * carry_stride] : 0.f;
      const long long memory = row * REAL_N * REAL_D * REAL_D;
      float* out = sh.out[warp];
      // half a tile of a query, and where a lane's piece of it begins
      const auto ends_of = [&](int half, unsigned& begin) -> unsigned {
        const int i = i0 + 8 * (half & 1), query = pass * HELD + set * PER + half / 2, full = REAL_D - i < 8 ? REAL_D - i : 8;
        begin = (query * REAL_D + i) * REAL_D;
        return query < REAL_N && full > 0 ? full * REAL_D : 0;
      };
      // what was there before is asked for while the half before it is written
      float was[2 * PER][PIECES][PIECE] = {};
      const auto ask = [&](int half) {
        unsigned begin, own = (unsigned)anew(threadIdx.x) % 32 * PIECE, end = ends_of(half, begin);
        const float* before = old + row * old_stride + begin + own;
#pragma unroll
        for (int y = 0; y < PIECES; y++)
          if (own + 32 * y * PIECE < end) read_piece(was[half][y], before + 32 * y * PIECE);
      };
      if (old) ask(0);
#pragma unroll
      for (int half = 0; half < 2 * PER; half++) {
        unsigned begin, own = (unsigned)anew(threadIdx.x) % 32 * PIECE, end = ends_of(half, begin);
        begin += own;
#pragma unroll
        for (int n = 0; n < 2 * DEEP; n++) {
          const int f = 8 * n + 2 * tq;
          float* y = sum[half / 2][n] + 2 * (half & 1);
#if REAL_D % 2
          if (f < REAL_D) out[g * OUT_LD + f] = y[0];
          if (f + 1 < REAL_D) out[g * OUT_LD + f + 1] = y[1];
#else
          if (f < REAL_D) *(float2*)(out + g * OUT_LD + f) = make_float2(y[0], y[1]);
#endif
          y[0] = y[1] = 0.f;
        }
        if (old && half + 1 < 2 * PER) ask(half + 1);
        warp_barrier();
#pragma unroll
        for (int y = 0; y < PIECES; y++) {
          const unsigned z = own + 32 * y * PIECE;
          if (z < end) {
            float made[PIECE];
            read_piece(made, out + (OUT_LD == REAL_D ? z : z / REAL_D * OUT_LD + z % REAL_D));
#pragma unroll
            for (int e = 0; e < PIECE; e++) made[e] = fmaf(left, was[half][y][e], made[e]);
            if (found) write_piece(found + memory + begin + 32 * y * PIECE, made);
            if (operand) narrow_piece(operand + memory + begin + 32 * y * PIECE, made);
          }
        }
        warp_barrier();
      }
      pass++, chunk = 0;
    } else {
      chunk++;
    }
    fetched();
    barrier();
  }
}
