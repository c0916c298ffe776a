// The relational memory after some steps, M[s] = carry * old[s] + sum over steps t and keys j of K[t][j][s] (x) left[t][j],
// where K[t][j][s] = tanh(q_s k_j) and `left` is what is left of the values. The matches are made in the registers from which
// the tensor cores read them, each once.
//
// A row m is a key of a step, one step after the other. A warp has 16 rows i of PER queries, a block all i of SETS * PER queries: a
// pass. Rows are staged 16 * TILES at a time; while they are multiplied, the next are fetched.
#define DEEP (D / 16)
#define WARPS (DEEP * SETS)
#define THREADS (32 * WARPS)
#define HELD (SETS * PER)
#define ROWS (16 * TILES)
// of how many steps ROWS rows in a row can be
#define NEAR (ROWS % REAL_N ? (ROWS + REAL_N - 2) / REAL_N + 1 : ROWS / REAL_N)
#define UNIT (REAL_D % 4 == 0 ? 4 : REAL_D % 2 == 0 ? 2 : 1)
#define LINE (REAL_D / UNIT)
#define FETCHED (TILES * DEEP / WARPS)

struct Stage {
  float keys[ROWS][D + 4];
  float queries[NEAR * HELD][D + 4];
  elem left[ROWS * D];  // in the order of a right operand: neighbours m, columns f
};
struct Shared {
  Stage stage[2];
};

extern "C" __global__ void __launch_bounds__(THREADS, 1) fold(
    const float* __restrict__ normal, const float* __restrict__ fades, const float* __restrict__ old,
    const float* __restrict__ carry, float* __restrict__ found, elem* __restrict__ operand, int time, int start,
    int stop, int fade_stride, int old_stride, int carry_stride, int groups, int passes) {
  SHARED_MEMORY(Shared, sh)
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3;
  const int b = blockIdx.x / groups, each = (passes + groups - 1) / groups, first = blockIdx.x % groups * each;
  const int last = first + each < passes ? first + each : passes;
  const int rows = (stop - start) * REAL_N, chunks = (rows + ROWS - 1) / ROWS, work = (last - first) * chunks;
  const float *from = normal + ((long long)b * time + start) * 3 * REAL_N * REAL_D, *fade = fades + (long long)b * fade_stride + start;
  const int i0 = 16 * (warp % DEEP), set = warp / DEEP;

  // queries and keys of rows that there are not are those of the last, and meet zeros
  const auto fetch = [&](Stage& to, int pass, int m0) {
    const int t0 = m0 / REAL_N, end = stop - start - 1;
    for (int x = tid; x < (ROWS + NEAR * HELD) * LINE; x += THREADS) {
      const int row = x / LINE, i = x % LINE * UNIT;
      if (row < ROWS) {
        const int m = m0 + row < rows ? m0 + row : rows - 1;
        copy_async<4 * UNIT>(&to.keys[row][i], from + (long long)((m / REAL_N * 3 + 1) * REAL_N + m % REAL_N) * REAL_D + i, true);
      } else {
        const int r = row - ROWS, t = t0 + r / HELD < end ? t0 + r / HELD : end, s = pass * HELD + r % HELD;
        copy_async<4 * UNIT>(&to.queries[r][i], from + (long long)(t * 3 * REAL_N + (s < REAL_N ? s : REAL_N - 1)) * REAL_D + i, true);
      }
    }
  };
  // a thread has whole pieces of a right operand
  const auto row_of = [&](int m0, int x, int e) { return m0 + 16 * (x / (32 * DEEP)) + 2 * tq + (e & 1) + 8 * (e >> 1 & 1); };
  float values[FETCHED][8];
  const auto fetch_values = [&](int m0) {
#pragma unroll
    for (int y = 0; y < FETCHED; y++)
#pragma unroll
      for (int e = 0; e < 8; e++) {
        const int x = tid + y * THREADS, m = row_of(m0, x, e), f = x / 32 % DEEP * 16 + 8 * (e >> 2) + g;
        values[y][e] = m < rows && f < REAL_D ? from[(long long)((m / REAL_N * 3 + 2) * REAL_N + m % REAL_N) * REAL_D + f] : 0.f;
      }
  };
  const auto keep_values = [&](Stage& to, int m0) {
#pragma unroll
    for (int y = 0; y < FETCHED; y++) {
      const int x = tid + y * THREADS;
      float left[4];
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int m = row_of(m0, x, e);
        left[e] = fade[(m < rows ? m : rows - 1) / REAL_N];
      }
      pair_t found[4];
#pragma unroll
      for (int e = 0; e < 4; e++) found[e] = pair(values[y][2 * e] * left[2 * e & 3], values[y][2 * e + 1] * left[(2 * e & 3) + 1]);
      store_pairs(to.left + 8 * x, found);
    }
  };

  if (work > 0) {
    fetch(sh.stage[0], first, 0);
    fetch_values(0);
    keep_values(sh.stage[0], 0);
    fetched();
  }
  barrier();
  float sum[PER][2 * DEEP][4] = {};
  int pass = first, chunk = 0;
  for (int x = 0; x < work; x++) {
    const bool ends = chunk == chunks - 1, more = x + 1 < work;
    const int next = ends ? 0 : (chunk + 1) * ROWS, m0 = chunk * ROWS, t0 = m0 / REAL_N;
    const Stage& at = sh.stage[x & 1];
    Stage& to = sh.stage[x + 1 & 1];
    if (more) {
      fetch(to, ends ? pass + 1 : pass, next);
      fetch_values(next);
    }
UNROLL
    for (int tile = 0; tile < TILES; tile++) {
      pair_t a[PER][4];
#pragma unroll
      for (int p = 0; p < 2; p++) {
        const int row = 16 * tile + 8 * p + 2 * tq, t = (m0 + row) / REAL_N - t0, u = REAL_N % 2 ? (m0 + row + 1) / REAL_N - t0 : t;
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int i = i0 + 8 * h + g;
          const float k0 = at.keys[row][i], k1 = at.keys[row + 1][i];
#pragma unroll
          for (int s = 0; s < PER; s++)
            a[s][2 * p + h] = pair(tanh_of(at.queries[t * HELD + set * PER + s][i] * k0), tanh_of(at.queries[u * HELD + set * PER + s][i] * k1));
        }
      }
#pragma unroll
      for (int f = 0; f < DEEP; f++) {
        pair_t right[4];
        load_pairs(at.left + ((tile * DEEP + f) * 32 + lane) * 8, right);
#pragma unroll
        for (int s = 0; s < PER; s++) multiply16(sum[s][2 * f], a[s], right);
#pragma unroll
        for (int s = 0; s < PER; s++) multiply16(sum[s][2 * f + 1], a[s], right + 2);
      }
    }
    if (more) keep_values(to, next);
    if (ends) {
      const float left = old ? carry[(long long)b * carry_stride] : 0.f;
#pragma unroll
      for (int s = 0; s < PER; s++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int i = i0 + 8 * h + g, query = pass * HELD + set * PER + s;
          const long long row = ((long long)query * REAL_D + i) * REAL_D, place = (long long)b * REAL_N * REAL_D * REAL_D + row;
          const bool in = query < REAL_N && i < REAL_D;
#pragma unroll
          for (int n = 0; n < 2 * DEEP; n++) {
            const int f = 8 * n + 2 * tq;
            float *y = sum[s][n] + 2 * h;
#if REAL_D % 2
            for (int e = 0; e < 2; e++)
              if (in && f + e < REAL_D) {
                if (old) y[e] = fmaf(left, old[(long long)b * old_stride + row + f + e], y[e]);
                if (found) found[place + f + e] = y[e];
                if (operand) operand[place + f + e] = narrow(y[e]);
              }
#else
            if (in && f < REAL_D) {
              if (old) {
                const float2 was = *(const float2*)(old + (long long)b * old_stride + row + f);
                y[0] = fmaf(left, was.x, y[0]), y[1] = fmaf(left, was.y, y[1]);
              }
              if (found) *(float2*)(found + place + f) = make_float2(y[0], y[1]);
              if (operand) store_pair(operand + place + f, pair(y[0], y[1]));
            }
#endif
            y[0] = y[1] = 0.f;
          }
        }
      pass++, chunk = 0;
    } else {
      chunk++;
    }
    fetched();
    barrier();
  }
}
