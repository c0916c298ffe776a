// The recurrence of both STMs, forward: one block reads one sequence at a time, all its steps in one
// launch, with the item memory in registers. `stm.py` packs the arguments, and says what they are.
//
// Axes, in the order of `twomem.ops.stm_released`; the paper's form runs on its transposed memory:
//   i  rows of the item memory, on which queries, keys and values live       warp w has 8 w to 8 w + 7
//   c  its columns, on which the gates and the projections act               the same
//   s  queries    j  keys and values    m  all of them: q, k, u              in groups of 8
//   t  steps      t' steps whose reads are still to come                     in tiles of 16
//
// A step has four phases, each ended by a barrier:
//   1 gates: I, F = sigmoid(tanh(M) U^T + g), R = I X + F M, to shared memory as operand
//   2 scores Y = R W^T, and what each warp knows of their mean and variance
//   3 normal scores, K = tanh(q k), and each warp's part of A = G1 K and of what later steps read
//   4 the sums over warps, M = R + V A, and tanh(M) as operand
//
// FORM 0 is the released code's (X = tanh(a a^T), one normalisation, reads return values, the
// transfer takes the step's own relations), 1 the paper's (X = b a^T, a normalisation per m, reads
// return keys, the transfer accumulates). Widths are padded: D to 16, N to 8, with zeros that stay zeros.
#define WARPS (D / 8)
#define THREADS (32 * WARPS)
#define ROWS (D / 16)
#define GROUPS (N / 8)
#define SCORES (3 * GROUPS)
#define TILES ((SCORES + 1) / 2)
#define TIMES (STEPS / 16)
#define LD (D + 8)
#define LDV (N == 16 ? 24 : N)
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define RELEASED (FORM == 0)
#define PAPER (FORM == 1)
#define CUES (RELEASED ? 3 * N : D)

struct Shared {
  union {
    alignas(16) elem tanh_items[D * LD];
    // held transfer weights leave no room beside it
    alignas(16) float tight_part_read[READ && HELD ? WARPS * STEPS * 8 : 1];
  };
  union {
    alignas(16) elem seen[D * LD];
    alignas(16) float part_image[TRANSFER ? WARPS * D * 8 : 1];
  };
  alignas(16) float part_read[READ && !HELD ? WARPS * STEPS * 8 : 1];
  alignas(16) elem transfer[TRANSFER && HELD ? N * D * D : 1];
  // what a step needs of its input, fetched during the step before it
  alignas(16) float gates[GATED ? 2 * D : 1];
  alignas(16) float row[D];
  alignas(16) float column[D];
  alignas(16) float cue[READ ? CUES : 1];
  alignas(16) elem values[D * LDV];
  alignas(16) float queries[WARPS][N][8];
  alignas(16) float keys[WARPS][N][8];
  alignas(16) float2 moments[WARPS][PAPER ? 3 * N : 1];
  alignas(16) elem address[READ ? STEPS * N : 1];
  alignas(16) elem coefficient[READ ? STEPS * LDV : 1];
  alignas(16) float kept[STEPS + 1];
};

// numbers of this warp that take part in a mean: padding does not
DI float counted(int warp) {
  const int rows = REAL_D - 8 * warp;
  return (float)((rows > 8 ? 8 : rows < 0 ? 0 : rows) * (RELEASED ? 3 * REAL_N : 1));
}

// mean and reciprocal deviation, from what each warp knows of its own
DI float2 normalisation(const Shared& sh, int place, int tq) {
  const float all = 1.f / (float)(RELEASED ? 3 * REAL_N * REAL_D : REAL_D);
  float mean = 0.f, squares = 0.f;
  for (int w = tq; w < WARPS; w += 4) mean += counted(w) * sh.moments[w][place].x;
  mean = over_tq(mean) * all;
  for (int w = tq; w < WARPS; w += 4) {
    const float off = sh.moments[w][place].x - mean;
    squares += fmaf(counted(w) * off, off, sh.moments[w][place].y);
  }
  return make_float2(mean, rsqrtf(fmaf(over_tq(squares), all, 1e-5f)));
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) stm_forward(
    const float* __restrict__ row, const float* __restrict__ column, const float* __restrict__ right,
    const float* __restrict__ cue, const float* __restrict__ address, const float* __restrict__ gates,
    const float* __restrict__ first_reads, const float* __restrict__ kept, const float* __restrict__ items,
    const float* __restrict__ moved, const elem* __restrict__ gate_weight, const elem* __restrict__ project,
    const float* __restrict__ project_bias, const float* __restrict__ gain, const float* __restrict__ bias,
    const elem* __restrict__ transfer, const int* __restrict__ lengths, float* __restrict__ normal,
    float* __restrict__ last_items, elem* __restrict__ saved_items, float* __restrict__ saved_scores,
    float* __restrict__ saved_rstd, float* __restrict__ saved_image, float* __restrict__ saved_met,
    float* __restrict__ saved_reads, int time, int batch, int own_items, int own_moved) {
  SHARED_MEMORY(Shared, sh)
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3;
  const int i0 = 8 * warp + 2 * tq;  // this lane's columns of D x D, and its rows among the scores
  for (int x = tid; x <= STEPS; x += THREADS) sh.kept[x] = READ && x <= time ? kept[x] : 0.f;
#if TRANSFER && HELD
  write_rows(sh.transfer, N * D, transfer, N * D, D, N * D, THREADS);
  const elem* weights = sh.transfer;
#elif TRANSFER
  const elem* weights = transfer;
#endif
#if READ && HELD
  float* part_read = sh.tight_part_read;
#elif READ
  float* part_read = sh.part_read;
#endif
  auto fetch_input = [&](long long at) {
#if GATED
    fetch_all(sh.gates, gates + at * 2 * D, 2 * D, THREADS);
#endif
    fetch_all(sh.row, row + at * D, D, THREADS);
    fetch_all(sh.column, column + at * D, D, THREADS);
#if READ
    fetch_all(sh.cue, cue + at * CUES, CUES, THREADS);
#endif
  };

  for (int sample = blockIdx.x; sample < batch; sample += gridDim.x) {
    const int steps = lengths ? lengths[sample] : time;
    if (steps > 0) fetch_input((long long)sample * time);
    float R[ROWS][4];
#if PAPER && TRANSFER
    float Z[ROWS][4];
#endif
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int i = 16 * r + 8 * h + g;
        const float2 x = *(const float2*)(items + ((long long)sample * own_items * D + i) * D + i0);
        R[r][2 * h] = x.x, R[r][2 * h + 1] = x.y;
        store_pair(sh.tanh_items + i * LD + i0, pair(tanh_of(x.x), tanh_of(x.y)));
#if PAPER && TRANSFER
        const float2 z = *(const float2*)(moved + ((long long)sample * own_moved * D + i) * D + i0);
        Z[r][2 * h] = z.x, Z[r][2 * h + 1] = z.y;
#endif
      }
      // as the threads hold it: the way back reads it so
      if (SAVE) store4(saved_items + (((long long)sample * time * ROWS + r) * THREADS + tid) * 4, R[r]);
    }
#if READ
    float reads[TIMES][4];
    pair_t later[2 * TIMES];
#pragma unroll
    for (int k = 0; k < TIMES; k++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int t = 16 * k + 8 * h + g;
        const long long at = ((long long)sample * time + (t < time ? t : 0)) * D + i0;
        const float2 b = *(const float2*)(right + at), v = *(const float2*)(first_reads + at);
        later[2 * k + h] = t < time ? pair(b.x, b.y) : no_pair();
        reads[k][2 * h] = v.x, reads[k][2 * h + 1] = v.y;
      }
    for (int x = tid; x < STEPS * N; x += THREADS)
      sh.address[x] = narrow(x / N < time ? address[(long long)sample * time * N + x] : 0.f);
#endif
    fetched();
    barrier();

    for (int t = 0; t < steps; t++) {
      const long long at = (long long)sample * time + t;
      // places are computed anew in each step, for there are no registers to keep them in
      const int tid = anew(threadIdx.x), warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3, i0 = 8 * warp + 2 * tq;
      // ---- what the step before adds to the reads of this and later ones; then the read of this step
      float v0 = 0.f, v1 = 0.f;
#if READ
      if (t > 0) {
#pragma unroll
        for (int jg = 0; jg < GROUPS; jg++) {
          const int j = 8 * jg + 2 * tq;
#if RELEASED
          const pair_t b = load_pair(sh.values + (8 * warp + g) * LDV + j);
#pragma unroll
          for (int k = 0; k < TIMES; k++) {
            const elem* c = sh.coefficient + (16 * k + g) * LDV + j;
            multiply8(reads[k], load_pair(c), load_pair(c + 8 * LDV), b);
          }
#else
          const float k0 = sh.keys[warp][j][g], k1 = sh.keys[warp][j + 1][g];
          pair_t u[2 * TIMES];
#pragma unroll
          for (int k = 0; k < 2 * TIMES; k++) u[k] = load_pair(sh.coefficient + (8 * k + g) * LDV + j);
          UNROLL
          for (int s = 0; s < N; s += 2) {
            const float qa = sh.queries[warp][s][g], qb = sh.queries[warp][s + 1][g];
            const pair_t b[2] = {pair(tanh_of(qa * k0), tanh_of(qa * k1)), pair(tanh_of(qb * k0), tanh_of(qb * k1))};
#pragma unroll
            for (int k = 0; k < TIMES; k++) {
              const elem* w = sh.address + (16 * k + g) * N + s;
              pair_t a[4];
              weighed(a, load_pair(w), load_pair(w + 8 * N), u[2 * k], u[2 * k + 1]);
              multiply16(reads[k], a, b);
            }
          }
#endif
        }
      }
#pragma unroll
      for (int k = 0; k < 2 * TIMES; k++)
        if (t >> 3 == k) v0 = reads[k >> 1][2 * (k & 1)], v1 = reads[k >> 1][2 * (k & 1) + 1];
      v0 = from_lane(v0, 4 * (t & 7) + tq), v1 = from_lane(v1, 4 * (t & 7) + tq);
      if (SAVE && g == 0) *(float2*)(saved_reads + at * D + i0) = make_float2(v0, v1);
#endif
      // ---- phase 1: gates
      float gate[GATED ? ROWS : 1][8];
#if GATED
      {
        const float2 take = *(const float2*)(sh.gates + i0), keep = *(const float2*)(sh.gates + D + i0);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
          for (int x = 0; x < 4; x++) gate[r][x] = x & 1 ? take.y : take.x, gate[r][4 + x] = x & 1 ? keep.y : keep.x;
        UNROLL
        for (int k = 0; k < ROWS; k++) {
          pair_t b[4];
          load_pairs(gate_weight + ((warp * ROWS + k) * 32 + lane) * 8, b);
#pragma unroll
          for (int r = 0; r < ROWS; r++) {
            pair_t a[4];
            load_left(a, sh.tanh_items + 16 * r * LD + 16 * k, LD);
            multiply16_twice(gate[r], gate[r] + 4, a, b, b + 2);
          }
        }
      }
#endif
      {
        const float2 c = *(const float2*)(sh.column + i0);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            const int i = 16 * r + 8 * h + g;
            const float a = sh.row[i];
            float x0 = a * c.x, x1 = a * c.y, *m = R[r] + 2 * h;
#if GATED
            if (RELEASED) x0 = tanh_of(x0), x1 = tanh_of(x1);
            m[0] = sigmoid_of(gate[r][2 * h]) * x0 + sigmoid_of(gate[r][4 + 2 * h]) * m[0];
            m[1] = sigmoid_of(gate[r][2 * h + 1]) * x1 + sigmoid_of(gate[r][4 + 2 * h + 1]) * m[1];
#else
            m[0] += x0, m[1] += x1;
#endif
            const float add = READ && PAPER ? sh.cue[i] : 0.f;
            store_pair(sh.seen + i * LD + i0, pair(fmaf(add, v0, m[0]), fmaf(add, v1, m[1])));
          }
      }
      barrier();
      // ---- phase 2: scores of this warp's rows; y[G] is group G of q, k, u at m = 8 G + g and rows i0, i0 + 1
      float y[2 * TILES][2];
      {
        float sum[TILES][4];
#pragma unroll
        for (int x = 0; x < 2 * TILES; x++) {
          const float start = x < SCORES ? project_bias[8 * x + g] : 0.f;
          sum[x / 2][2 * (x & 1)] = sum[x / 2][2 * (x & 1) + 1] = start;
        }
        UNROLL
        for (int k = 0; k < ROWS; k++) {
          pair_t b[2];
          load_right(b, sh.seen + 8 * warp * LD + 16 * k, LD);
#pragma unroll
          for (int x = 0; x < TILES; x++) {
            pair_t a[4];
            load_pairs(project + ((x * ROWS + k) * 32 + lane) * 8, a);
            multiply16(sum[x], a, b);
          }
        }
#pragma unroll
        for (int x = 0; x < 2 * TILES; x++) {
          y[x][0] = sum[x / 2][2 * (x & 1)], y[x][1] = sum[x / 2][2 * (x & 1) + 1];
#if READ && RELEASED
          if (x < SCORES) {
            const float p = sh.cue[8 * x + g];
            y[x][0] = fmaf(v0, p, y[x][0]), y[x][1] = fmaf(v1, p, y[x][1]);
          }
#endif
        }
      }
      const bool in0 = i0 < REAL_D, in1 = i0 + 1 < REAL_D;
      const float own = counted(warp), part = own > 0.f ? 1.f / own : 0.f;
#if RELEASED
      {
        float sum = 0.f, squares = 0.f;
#pragma unroll
        for (int x = 0; x < SCORES; x++)
          if (8 * (x % GROUPS) + g < REAL_N) sum += (in0 ? y[x][0] : 0.f) + (in1 ? y[x][1] : 0.f);
        const float mean = over_g(over_tq(sum)) * part;
#pragma unroll
        for (int x = 0; x < SCORES; x++)
          if (8 * (x % GROUPS) + g < REAL_N) {
            const float d0 = in0 ? y[x][0] - mean : 0.f, d1 = in1 ? y[x][1] - mean : 0.f;
            squares += d0 * d0 + d1 * d1;
          }
        squares = over_g(over_tq(squares));
        if (lane == 0) sh.moments[warp][0] = make_float2(mean, squares);
      }
#else
#pragma unroll
      for (int x = 0; x < SCORES; x++) {
        const float mean = over_tq((in0 ? y[x][0] : 0.f) + (in1 ? y[x][1] : 0.f)) * part;
        const float d0 = in0 ? y[x][0] - mean : 0.f, d1 = in1 ? y[x][1] - mean : 0.f;
        const float squares = over_tq(d0 * d0 + d1 * d1);
        if (tq == 0) sh.moments[warp][8 * x + g] = make_float2(mean, squares);
      }
#endif
      barrier();
      // ---- phase 3: normal scores; matches; parts of sums over all rows
      if (t + 1 < steps) fetch_input(at + 1);
#if RELEASED
      const float2 known = normalisation(sh, 0, tq);
#endif
#pragma unroll
      for (int x = 0; x < SCORES; x++) {
        const int m = 8 * x + g, place = RELEASED ? 0 : m;
#if PAPER
        const float2 known = normalisation(sh, m, tq);
#endif
        const float rstd = known.y, x0 = (y[x][0] - known.x) * rstd, x1 = (y[x][1] - known.x) * rstd;
        const float2 w = *(const float2*)(gain + m * D + i0), b = *(const float2*)(bias + m * D + i0);
        y[x][0] = fmaf(x0, w.x, b.x), y[x][1] = fmaf(x1, w.y, b.y);
        *(float2*)(normal + (at * 3 * N + m) * D + i0) = make_float2(y[x][0], y[x][1]);
        if (SAVE) {
          *(float2*)(saved_scores + (at * 3 * N + m) * D + i0) = make_float2(x0, x1);
          if (RELEASED ? tid == 0 && x == 0 : warp == 0 && tq == 0) saved_rstd[at * (RELEASED ? 1 : 3 * N) + place] = rstd;
        }
        if (x < 2 * GROUPS) {
          float* scratch = x < GROUPS ? sh.queries[warp][m] : sh.keys[warp][m - N];
          scratch[2 * tq] = y[x][0], scratch[2 * tq + 1] = y[x][1];
        } else {
          sh.values[i0 * LDV + m - 2 * N] = narrow(y[x][0]);
          sh.values[(i0 + 1) * LDV + m - 2 * N] = narrow(y[x][1]);
        }
      }
      warp_barrier();
#pragma unroll
      for (int jg = 0; jg < GROUPS; jg++) {
#if READ
        float met[TIMES][4] = {};
#endif
#if TRANSFER
        float image[ROWS][4] = {};
#endif
#if TRANSFER || (READ && RELEASED)
        UNROLL
        for (int s = 0; s < N; s += 2) {
          const float *q = sh.queries[warp][s] + 2 * tq, k0 = y[GROUPS + jg][0], k1 = y[GROUPS + jg][1];
          const pair_t matches[2] = {pair(tanh_of(q[0] * k0), tanh_of(q[1] * k1)), pair(tanh_of(q[8] * k0), tanh_of(q[9] * k1))};
#if READ && RELEASED
#pragma unroll
          for (int k = 0; k < TIMES; k++) {
            const elem* w = sh.address + (16 * k + g) * N + s;
            pair_t a[4];
            weighed(a, load_pair(w), load_pair(w + 8 * N), later[2 * k], later[2 * k + 1]);
            multiply16(met[k], a, matches);
          }
#endif
#if TRANSFER
#pragma unroll
          for (int r = 0; r < ROWS; r++) {
            pair_t a[4];
            load_pairs(weights + (((warp * (N / 2) + s / 2) * ROWS + r) * 32 + lane) * 8, a);
            multiply16(image[r], a, matches);
          }
#endif
        }
#endif
#if READ
#pragma unroll
        for (int k = 0; k < TIMES; k++) {
#if PAPER
          multiply8(met[k], later[2 * k], later[2 * k + 1], pair(y[2 * GROUPS + jg][0], y[2 * GROUPS + jg][1]));
#endif
          float* to = part_read + (warp * STEPS + 16 * k + g) * 8 + 2 * tq;
          to[0] = met[k][0], to[1] = met[k][1], to[64] = met[k][2], to[65] = met[k][3];
        }
#endif
#if TRANSFER
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
          float* to = sh.part_image + (warp * D + 16 * r + g) * 8 + 2 * tq;
          to[0] = image[r][0], to[1] = image[r][1], to[64] = image[r][2], to[65] = image[r][3];
        }
#endif
        barrier();
        // ---- phase 4: sums over warps
#if TRANSFER
        {
          float a0 = 0.f, a1 = 0.f;
          for (int w = 0; w < WARPS; w++) {
            const float* from = sh.part_image + (w * D + 8 * warp + g) * 8 + 2 * tq;
            a0 += from[0], a1 += from[1];
          }
          const int j = 8 * jg + 2 * tq;
          if (SAVE) {
            saved_image[(at * N + j) * D + 8 * warp + g] = a0;
            saved_image[(at * N + j + 1) * D + 8 * warp + g] = a1;
          }
          const pair_t b = pair(a0, a1);
#pragma unroll
          for (int r = 0; r < ROWS; r++) {
            const elem* v = sh.values + (16 * r + g) * LDV + j;
#if PAPER
            multiply8(Z[r], load_pair(v), load_pair(v + 8 * LDV), b);
#else
            multiply8(R[r], load_pair(v), load_pair(v + 8 * LDV), b);
#endif
          }
        }
#endif
#if READ
        for (int x = tid; x < STEPS * 8; x += THREADS) {
          const int when = x >> 3, j = 8 * jg + (x & 7);
          float met = 0.f;
          for (int w = 0; w < WARPS; w++) met += part_read[w * STEPS * 8 + x];
          if (when <= t || when >= time) met = 0.f;
          if (SAVE) saved_met[(at * STEPS + when) * N + j] = met;
          sh.coefficient[when * LDV + j] = narrow(RELEASED && when > t ? met * sh.kept[when - t - 1] : met);
        }
#endif
        if (jg + 1 < GROUPS || (READ && HELD)) barrier();
      }
      {
#if TRANSFER && RELEASED
        const float2 always = *(const float2*)(moved + i0);
#endif
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            float* m = R[r] + 2 * h;
            const int i = 16 * r + 8 * h + g;
#if TRANSFER && RELEASED
            m[0] += always.x, m[1] += always.y;
#elif TRANSFER
            m[0] += Z[r][2 * h], m[1] += Z[r][2 * h + 1];
#endif
            store_pair(sh.tanh_items + i * LD + i0, pair(tanh_of(m[0]), tanh_of(m[1])));
          }
#pragma unroll
        for (int r = 0; SAVE && r < ROWS; r++)
          if (t + 1 < steps) store4(saved_items + (((at + 1) * ROWS + r) * THREADS + tid) * 4, R[r]);
      }
      fetched();
      barrier();
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        *(float2*)(last_items + ((long long)sample * D + 16 * r + 8 * h + g) * D + i0) = make_float2(R[r][2 * h], R[r][2 * h + 1]);
    barrier();
  }
}
