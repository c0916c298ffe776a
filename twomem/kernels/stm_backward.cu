// The recurrence of both STMs, backward: steps in reverse, with the gradient of the item memory in
// registers. `stm_forward.cu` has the axes and the forms. What is sum over steps and sequences alone,
// the gradients of the weights, is left to matrix products over what is written here. All that goes into
// products is `scale` times the gradient: the loop is linear in it, and 16-bit operands have a narrow range.
//
// A step has six phases, each ended by a barrier:
//   1 the gradient that the transfer sees, and what the forward pass saved, to shared memory
//   2 gradients of the values and of the image, as far as the transfer goes; of what later steps met
//   3 gradients of the matches, K = tanh(q k), of q and k, and the sums of the normalisation
//   4 gradients of the scores, and of the read of this step if it met their rows
//   5 gradient of R, gates once more, their gradients
//   6 what flows on through tanh(M) and the forget gate
// A launch reads the steps from `first` to `behind`, and goes on from where that of the steps behind them ended:
// what is written entry by entry, `d_gate`, `heard` and `seen`, is so large that it is used up in between.
//
// What a step needs of memory is fetched while the step after it is computed. Where shared memory is
// short, gate weights (KEPT 0), the item memory (FETCHED 0) or what normalisation needs (STAGED 0) are
// read where they stand, and what the scores are of is not gathered to be written in rows (GATHERED 0).
#define WARPS (D / 8)
#define THREADS (32 * WARPS)
#define ROWS (D / 16)
#define GROUPS (N / 8)
#define PAIRS ((GROUPS + 1) / 2)
#define SCORES (3 * GROUPS)
#define TILES ((SCORES + 1) / 2)
#define TIMES (STEPS / 16)
#define LD (D + 8)
#define LDF (D + 4)
#define LDT (STEPS + 8)
#define LDV N
#define LDS (16 * TILES + 8)
#define LDG (D * (2 / GATE_PARTS) + 8)
// gradients of cues and addresses are summed here where they fit into registers
#define SUMMED (READ && GROUPS == 1)
#define RELEASED (FORM == 0)
#define PAPER (FORM == 1)
#define CUES (RELEASED ? 3 * N : D)
#define DEVIATIONS (RELEASED ? 1 : 3 * N)
// tiles of rows whose gates are made at once: few, where their weights are at hand
#define TOGETHER (KEPT ? (D > 96 ? 2 : 3) : ROWS)
#if FORM == 1
#define TRANSFERRED all
#else
#define TRANSFERRED flow
#endif

struct Shared {
  alignas(16) elem tanh_items[GATED ? D * LD : 1];
  union {
    alignas(16) elem flow[TRANSFER ? D * LD : 1];
    alignas(16) elem d_gate[GATED ? D * LDG : 1];
    alignas(16) float part_address[SUMMED ? WARPS * STEPS * N : 1];
  };
  alignas(16) elem gate_weight[GATED && KEPT ? 2 * D * D : 1];
  alignas(16) elem seen[GATHERED ? D * LD : 1];
  // fetched: the item memory as the threads hold it, and rows of scores
  alignas(16) elem items[FETCHED ? D * D : 1];
  alignas(16) float normal[3 * N * LDF];
  alignas(16) float scores[STAGED ? 3 * N * LDF : 1];
  alignas(16) float d_normal[STAGED ? 3 * N * LDF : 1];
  alignas(16) float saved_image[TRANSFER ? N * D : 1];
  alignas(16) float saved_met[READ ? STEPS * N : 1];
  alignas(16) float gates[GATED ? 2 * D : 1];
  alignas(16) float row[D];
  alignas(16) float column[D];
  alignas(16) float cue[READ ? CUES : 1];
  alignas(16) float rstd[DEVIATIONS];
  // made of it
  union {
    struct {
      alignas(16) elem values[N * LD];
      alignas(16) elem image[TRANSFER ? N * LD : 1];
      alignas(16) elem d_image[TRANSFER ? N * LD : 1];
    };
    alignas(16) float part_row[WARPS][D];
  };
  alignas(16) elem d_scores[D * LDS];
  alignas(16) elem d_reads[READ ? STEPS * LD : 1];
  alignas(16) elem d_reads_turned[READ ? D * LDT : 1];
  alignas(16) elem right_turned[READ ? D * LDT : 1];
  alignas(16) elem met[READ ? N * LDT : 1];
  alignas(16) elem d_met[READ ? N * LDT : 1];
  alignas(16) elem later_met[SUMMED ? STEPS * LDV : 1];
  alignas(16) float part_met[READ && PAPER ? WARPS * STEPS * 8 : 1];
  alignas(16) float2 moments[WARPS][PAPER ? 3 * N : 1];
  alignas(16) elem address[READ ? STEPS * N : 1];
  alignas(16) elem address_turned[READ ? N * LDT : 1];
  alignas(16) float kept[STEPS + 1];
};

// rows g and g + 8 of a left operand that may have one group of rows only
DI void load_groups(pair_t* a, const elem* tile, int ld, bool both) {
  if (both) {
    load_left(a, tile, ld);
  } else {
    load_right(a, tile, ld);
    a[2] = a[1], a[1] = a[3] = no_pair();
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) stm_backward(
    const float* __restrict__ row, const float* __restrict__ column, const float* __restrict__ right,
    const float* __restrict__ cue, const float* __restrict__ address, const float* __restrict__ gates,
    const float* __restrict__ kept, const elem* __restrict__ gate_weight, const elem* __restrict__ gate_back,
    const elem* __restrict__ project_back, const float* __restrict__ gain, const elem* __restrict__ transfer_back,
    const int* __restrict__ lengths, const float* __restrict__ normal, const elem* __restrict__ saved_items,
    const float* __restrict__ saved_scores, const float* __restrict__ saved_rstd, const float* __restrict__ saved_image,
    const float* __restrict__ saved_met, const float* __restrict__ saved_reads, const float* __restrict__ d_normal,
    const float* __restrict__ d_last_items, const float* __restrict__ scale, float* __restrict__ d_row, float* __restrict__ d_column,
    float* __restrict__ d_gates, elem* __restrict__ d_scores, float* __restrict__ d_image, float* __restrict__ d_reads,
    float* __restrict__ d_met, float* __restrict__ d_right, float* __restrict__ d_address, elem* __restrict__ d_gate,
    elem* __restrict__ heard, elem* __restrict__ seen, float* __restrict__ d_gain,
    float* __restrict__ d_bias, float* __restrict__ d_items, float* __restrict__ d_moved, int time, int batch, int first, int behind) {
  SHARED_MEMORY(Shared, sh)
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3;
  const int i0 = 8 * warp + 2 * tq;  // this lane's columns of D x D
  const int own = 8 * warp + g;      // its row among the scores
  const float scaled = *scale;       // brings all gradients to where operands are exact
  const float exactly = 1.f / scaled;
  for (int x = tid; x <= STEPS; x += THREADS) sh.kept[x] = READ && x <= time ? kept[x] : 0.f;
  for (int x = tid; x < D * LDS; x += THREADS) sh.d_scores[x] = narrow(0.f);
#if GATED && KEPT
  write_rows(sh.gate_weight, 2 * D, gate_weight, 2 * D, D, 2 * D, THREADS);
#endif

  // what step `at` needs for its matches, and for the rest; called once that of the step after it is used
  auto fetch_scores = [&](long long at) {
    fetch_rows(sh.normal, normal + at * 3 * N * D, 3 * N, D, LDF, WARPS);
#if STAGED
    fetch_rows(sh.scores, saved_scores + at * 3 * N * D, 3 * N, D, LDF, WARPS);
    fetch_rows(sh.d_normal, d_normal + at * 3 * N * D, 3 * N, D, LDF, WARPS);
#endif
#if TRANSFER
    fetch_all(sh.saved_image, saved_image + at * N * D, N * D, THREADS);
#endif
#if READ
    fetch_all(sh.saved_met, saved_met + at * STEPS * N, STEPS * N, THREADS);
#endif
  };
  auto fetch_items = [&](long long at) {
#if FETCHED
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      copy_async<4 * sizeof(elem)>(sh.items + (r * THREADS + tid) * 4, saved_items + ((at * ROWS + r) * THREADS + tid) * 4, true);
#endif
#if GATED
    fetch_all(sh.gates, gates + at * 2 * D, 2 * D, THREADS);
#endif
    fetch_all(sh.row, row + at * D, D, THREADS);
    fetch_all(sh.column, column + at * D, D, THREADS);
#if READ
    fetch_all(sh.cue, cue + at * CUES, CUES, THREADS);
#endif
    if (tid < DEVIATIONS) copy_async<4>(sh.rstd + tid, saved_rstd + at * DEVIATIONS + tid, true);
  };

  for (int sample = blockIdx.x; sample < batch; sample += gridDim.x) {
    const int steps = lengths ? lengths[sample] : time, last = steps < behind ? steps : behind;
    const bool goes_on = behind < time;
    if (last > first) {
      fetch_scores((long long)sample * time + last - 1);
      fetch_items((long long)sample * time + last - 1);
    }
    float flow[ROWS][4];  // the gradient of the item memory
#if PAPER && TRANSFER
    float all[ROWS][4];  // that of the running transfer
#endif
    float always0 = 0.f, always1 = 0.f;  // that of the transfer's bias
    float to_gain[SCORES][2] = {}, to_bias[SCORES][2] = {};
#if SUMMED
    float to_right[TIMES][4] = {}, to_address[TIMES][4] = {};
#if RELEASED
    pair_t later[2 * TIMES];
#pragma unroll
    for (int k = 0; k < 2 * TIMES; k++) {
      const int t = 8 * k + g;
      const float2 b = *(const float2*)(right + ((long long)sample * time + (t < time ? t : 0)) * D + i0);
      later[k] = t < time ? pair(b.x, b.y) : no_pair();
    }
#endif
#endif
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        float2 x = make_float2(0.f, 0.f);
        const float *from = goes_on ? d_items : d_last_items, by = goes_on ? 1.f : scaled;
        const long long place = ((long long)sample * D + 16 * r + 8 * h + g) * D + i0;
        if (from) x = *(const float2*)(from + place);
        flow[r][2 * h] = by * x.x, flow[r][2 * h + 1] = by * x.y;
#if PAPER && TRANSFER
        if (goes_on) x = *(const float2*)(d_moved + place);
        all[r][2 * h] = goes_on ? x.x : 0.f, all[r][2 * h + 1] = goes_on ? x.y : 0.f;
#endif
      }
#if READ
    for (int x = tid; x < STEPS * LD; x += THREADS) {
      const int t = x / LD, i = x % LD;
      sh.d_reads[x] = narrow(t >= behind && t < steps && i < D ? d_reads[((long long)sample * time + t) * D + i] : 0.f);
    }
    for (int x = tid; x < D * LDT; x += THREADS) {
      const int i = x / LDT, t = x % LDT;
      sh.d_reads_turned[x] = narrow(t >= behind && t < steps ? d_reads[((long long)sample * time + t) * D + i] : 0.f);
      sh.right_turned[x] = narrow(t < time ? right[((long long)sample * time + t) * D + i] : 0.f);
    }
    for (int x = tid; x < STEPS * N; x += THREADS) {
      const elem w = narrow(x / N < time ? address[(long long)sample * time * N + x] : 0.f);
      sh.address[x] = sh.address_turned[x % N * LDT + x / N] = w;
    }
#endif
    fetched();
    barrier();
    for (int t = last - 1; t >= first; t--) {
      // places are computed anew in each step, for there are no registers to keep them in
      const int tid = anew(threadIdx.x), warp = tid >> 5, lane = tid & 31, g = lane >> 2, tq = lane & 3;
      const int i0 = 8 * warp + 2 * tq, own = 8 * warp + g;
      const long long at = (long long)sample * time + t, here = (long long)sample * (behind - first) + t - first;
      const elem* items = FETCHED ? sh.items : saved_items + at * D * D;
      // ---- phase 1: to shared memory
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
#if GATED
        float m[4];
        load4(items + (r * THREADS + tid) * 4, m);
#pragma unroll
        for (int h = 0; h < 2; h++)
          store_pair(sh.tanh_items + (16 * r + 8 * h + g) * LD + i0, pair(tanh_of(m[2 * h]), tanh_of(m[2 * h + 1])));
#endif
#if TRANSFER
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const float f0 = flow[r][2 * h], f1 = flow[r][2 * h + 1];
#if PAPER
          all[r][2 * h] += f0, all[r][2 * h + 1] += f1;
#else
          always0 += f0, always1 += f1;
#endif
          store_pair(sh.flow + (16 * r + 8 * h + g) * LD + i0, pair(TRANSFERRED[r][2 * h], TRANSFERRED[r][2 * h + 1]));
        }
#endif
      }
      for (int x = 2 * tid; x < N * D; x += 2 * THREADS) {
        const int j = x / D, i = x % D;
        const float* v = sh.normal + (2 * N + j) * LDF + i;
        store_pair(sh.values + j * LD + i, pair(v[0], v[1]));
#if TRANSFER
        store_pair(sh.image + j * LD + i, pair(sh.saved_image[x], sh.saved_image[x + 1]));
#endif
      }
#if READ
      for (int x = tid; x < STEPS * N; x += THREADS) {
        const int when = x / N, j = x % N;
        const float c = sh.saved_met[x];
        sh.met[j * LDT + when] = narrow(RELEASED ? (when > t ? c * sh.kept[when - t - 1] : 0.f) : c);
#if SUMMED && PAPER
        sh.later_met[when * LDV + j] = narrow(c);
#endif
      }
#endif
      barrier();
      // ---- phase 2: rows j = g and j = g + 8 of a tile of two groups
#if GATED
      write_rows(heard + here * D * D, D, sh.tanh_items, LD, D, D, THREADS);
#endif
      float to_values[PAIRS][4] = {};
#if TRANSFER
      {
        float to_image[PAIRS][4] = {};
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
          pair_t along[2];
          load_right(along, sh.flow + 8 * warp * LD + 16 * k, LD);
          const float* x = TRANSFERRED[k];
          const pair_t across[2] = {transposed(x[0], x[1]), transposed(x[2], x[3])};
#pragma unroll
          for (int x2 = 0; x2 < PAIRS; x2++) {
            pair_t left[4];
            load_groups(left, sh.image + 16 * x2 * LD + 16 * k, LD, 2 * x2 + 1 < GROUPS);
            multiply16(to_values[x2], left, along);
            load_groups(left, sh.values + 16 * x2 * LD + 16 * k, LD, 2 * x2 + 1 < GROUPS);
            multiply16(to_image[x2], left, across);
          }
        }
#pragma unroll
        for (int jg = 0; jg < GROUPS; jg++) {
          const float* x = to_image[jg / 2] + 2 * (jg & 1);
          store_pair(sh.d_image + (8 * jg + g) * LD + i0, pair(x[0], x[1]));
          *(float2*)(d_image + (at * N + 8 * jg + g) * D + i0) = make_float2(x[0], x[1]);
        }
      }
#endif
#if READ && RELEASED
      for (int k = warp; k < TIMES; k += WARPS)
#pragma unroll
        for (int jg = 0; jg < GROUPS; jg++) {
          float to[4] = {0.f, 0.f, 0.f, 0.f};
          UNROLL
          for (int n = 0; n < ROWS; n++) {
            pair_t left[4], b[2];
            load_left(left, sh.d_reads + 16 * k * LD + 16 * n, LD);
            load_right(b, sh.values + 8 * jg * LD + 16 * n, LD);
            multiply16(to, left, b);
          }
#pragma unroll
          for (int x = 0; x < 4; x++) {
            const int when = 16 * k + 8 * (x >> 1) + g, j = 8 * jg + 2 * tq + (x & 1);
            d_met[(at * STEPS + when) * N + j] = to[x];
            const elem faded = narrow(when > t ? to[x] * sh.kept[when - t - 1] : 0.f);
            sh.d_met[j * LDT + when] = faded;
#if SUMMED
            sh.later_met[when * LDV + j] = faded;
#endif
          }
        }
#endif
#if READ && PAPER
#pragma unroll
      for (int jg = 0; jg < GROUPS; jg++) {
        const float2 key = *(const float2*)(sh.normal + (N + 8 * jg + g) * LDF + i0);
        float part[TIMES][4] = {};
        UNROLL
        for (int s = 0; s < N; s += 2) {
          const float *qa = sh.normal + s * LDF + i0, *qb = qa + LDF;
          const pair_t matches[2] = {pair(tanh_of(qa[0] * key.x), tanh_of(qa[1] * key.y)), pair(tanh_of(qb[0] * key.x), tanh_of(qb[1] * key.y))};
#pragma unroll
          for (int k = 0; k < TIMES; k++) {
            const elem *from = sh.d_reads + (16 * k + g) * LD + i0, *w = sh.address + (16 * k + g) * N + s;
            pair_t a[4];
            weighed(a, load_pair(w), load_pair(w + 8 * N), load_pair(from), load_pair(from + 8 * LD));
            multiply16(part[k], a, matches);
          }
        }
#pragma unroll
        for (int k = 0; k < TIMES; k++) {
          const float* to = part[k];
          float* place = sh.part_met + (warp * STEPS + 16 * k + g) * 8 + 2 * tq;
          place[0] = to[0], place[1] = to[1], place[64] = to[2], place[65] = to[3];
        }
        barrier();
        for (int x = tid; x < STEPS * 8; x += THREADS) {
          const int when = x >> 3, j = 8 * jg + (x & 7);
          float sum = 0.f;
          for (int w = 0; w < WARPS; w++) sum += sh.part_met[w * STEPS * 8 + x];
          d_met[(at * STEPS + when) * N + j] = sum;
          sh.d_met[j * LDT + when] = narrow(sum);
        }
        if (jg + 1 < GROUPS) barrier();
      }
#endif
      barrier();
      // ---- phase 3: rows (query, i), columns j; then all at row i = own and m = 8 G + 2 tq and the next
      float to_normal[SCORES][2] = {};
      {
#if READ
        // values meet a read: released by what the step met of the cue, the paper's by the cue itself
        const elem *cues = RELEASED ? sh.d_reads_turned : sh.right_turned, *coefficients = RELEASED ? sh.met : sh.d_met;
#pragma unroll
        for (int k = 0; k < TIMES; k++) {
          pair_t b[2];
          load_right(b, cues + 8 * warp * LDT + 16 * k, LDT);
#pragma unroll
          for (int x = 0; x < PAIRS; x++) {
            pair_t left[4];
            load_groups(left, coefficients + 16 * x * LDT + 16 * k, LDT, 2 * x + 1 < GROUPS);
            multiply16(to_values[x], left, b);
          }
        }
#endif
#pragma unroll
        for (int jg = 0; jg < GROUPS; jg++) {
          const float2 v = transposed_exact(to_values[jg / 2][2 * (jg & 1)], to_values[jg / 2][2 * (jg & 1) + 1]);
          to_normal[2 * GROUPS + jg][0] = v.x, to_normal[2 * GROUPS + jg][1] = v.y;
        }
#if TRANSFER || READ
#pragma unroll
        for (int jg = 0; jg < GROUPS; jg++) {
          const float *key = sh.normal + (N + 8 * jg + 2 * tq) * LDF + own, k0 = key[0], k1 = key[LDF];
#pragma unroll
          for (int sg = 0; sg < GROUPS; sg++)
          UNROLL
          for (int s = 8 * sg; s < 8 * sg + 8; s += 2) {
            float e[4] = {0.f, 0.f, 0.f, 0.f}, e2[4] = {0.f, 0.f, 0.f, 0.f};
#if TRANSFER
            {
              // all weights first, so that they are on their way together
              pair_t a[ROWS][4];
#pragma unroll
              for (int k = 0; k < ROWS; k++) load_pairs(transfer_back + (((warp * (N / 2) + s / 2) * ROWS + k) * 32 + lane) * 8, a[k]);
#pragma unroll
              for (int k = 0; k < ROWS; k++) {
                pair_t b[2];
                load_right(b, sh.d_image + 8 * jg * LD + 16 * k, LD);
                multiply16(k & 1 ? e2 : e, a[k], b);
              }
            }
#endif
#if READ
            const elem *rows = RELEASED ? sh.right_turned : sh.d_reads_turned, *columns = RELEASED ? sh.d_met : sh.met;
#pragma unroll
            for (int k = 0; k < TIMES; k++) {
              const elem *x = rows + own * LDT + 16 * k + 2 * tq, *w = sh.address_turned + s * LDT + 16 * k + 2 * tq;
              const pair_t x0 = load_pair(x), x1 = load_pair(x + 8);
              pair_t b[2];
              load_right(b, columns + 8 * jg * LDT + 16 * k, LDT);
              const pair_t a[4] = {product(load_pair(w), x0), product(load_pair(w + LDT), x0),
                                   product(load_pair(w + 8), x1), product(load_pair(w + LDT + 8), x1)};
              multiply16(k & 1 ? e2 : e, a, b);
            }
#endif
            float matches[4];
#pragma unroll
            for (int h = 0; h < 2; h++) {
              const float q = sh.normal[(s + h) * LDF + own], m0 = tanh_of(q * k0), m1 = tanh_of(q * k1);
              const float e0 = (e[2 * h] + e2[2 * h]) * (1.f - m0 * m0), e1 = (e[2 * h + 1] + e2[2 * h + 1]) * (1.f - m1 * m1);
              matches[2 * h] = m0, matches[2 * h + 1] = m1;
              const float sum = over_tq(e0 * k0 + e1 * k1);
              if ((s & 7) >> 1 == tq) to_normal[sg][h] += sum;
              to_normal[GROUPS + jg][0] = fmaf(e0, q, to_normal[GROUPS + jg][0]);
              to_normal[GROUPS + jg][1] = fmaf(e1, q, to_normal[GROUPS + jg][1]);
            }
#if SUMMED && RELEASED
            // later cues met these matches
            const pair_t met_now[2] = {pair(matches[0], matches[1]), pair(matches[2], matches[3])};
#pragma unroll
            for (int k = 0; k < TIMES; k++) {
              const elem *w = sh.address + (16 * k + g) * N + s, *c = sh.later_met + (16 * k + g) * LDV + 8 * jg + 2 * tq;
              pair_t a[4];
              weighed(a, load_pair(w), load_pair(w + 8 * N), load_pair(c), load_pair(c + 8 * LDV));
              multiply16(to_right[k], a, met_now);
            }
#endif
          }
        }
#endif
#if SUMMED
        // what later addresses weighed: matches of query g with each key, at this warp's rows 2 tq and the next
        {
          const float2 q = *(const float2*)(sh.normal + g * LDF + i0);
          UNROLL
          for (int j = 0; j < N; j += 2) {
            const float *ka = sh.normal + (N + j) * LDF + i0, *kb = ka + LDF;
            const pair_t b[2] = {pair(tanh_of(q.x * ka[0]), tanh_of(q.y * ka[1])), pair(tanh_of(q.x * kb[0]), tanh_of(q.y * kb[1]))};
#pragma unroll
            for (int k = 0; k < TIMES; k++) {
              const elem* c = sh.later_met + (16 * k + g) * LDV + j;
#if RELEASED
              const pair_t x0 = later[2 * k], x1 = later[2 * k + 1];
#else
              const elem* x = sh.d_reads + (16 * k + g) * LD + i0;
              const pair_t x0 = load_pair(x), x1 = load_pair(x + 8 * LD);
#endif
              pair_t a[4];
              weighed(a, load_pair(c), load_pair(c + 8 * LDV), x0, x1);
              multiply16(to_address[k], a, b);
            }
          }
        }
#if PAPER
        // later cues met these values
        {
          const elem* v = sh.values + 2 * tq * LD + own;
          const pair_t b = pair(widen(v[0]), widen(v[LD]));
#pragma unroll
          for (int k = 0; k < TIMES; k++) {
            const elem* c = sh.d_met + 2 * tq * LDT + 16 * k + g;
            multiply8(to_right[k], pair(widen(c[0]), widen(c[LDT])), pair(widen(c[8]), widen(c[LDT + 8])), b);
          }
        }
#endif
#endif
      }
      float score[SCORES][2];
#if RELEASED
      float sum = 0.f, met = 0.f;
#endif
#pragma unroll
      for (int x = 0; x < SCORES; x++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const int m = 8 * x + 2 * tq + e;
#if STAGED
          const float given = sh.d_normal[m * LDF + own];
          score[x][e] = sh.scores[m * LDF + own];
#else
          const float given = d_normal[(at * 3 * N + m) * D + own];
          score[x][e] = saved_scores[(at * 3 * N + m) * D + own];
#endif
          const float total = fmaf(scaled, given, to_normal[x][e]);
          to_gain[x][e] = fmaf(total, score[x][e], to_gain[x][e]), to_bias[x][e] += total;
          to_normal[x][e] = total * gain[m * D + own];
#if RELEASED
          sum += to_normal[x][e], met = fmaf(to_normal[x][e], score[x][e], met);
#else
          const float a = over_g(to_normal[x][e]), b = over_g(to_normal[x][e] * score[x][e]);
          if (g == 0) sh.moments[warp][m] = make_float2(a, b);
#endif
        }
      }
#if RELEASED
      sum = over_g(over_tq(sum)), met = over_g(over_tq(met));
      if (lane == 0) sh.moments[warp][0] = make_float2(sum, met);
#endif
      barrier();
      // ---- phase 4: gradients of the scores
      if (t > first) fetch_scores(at - 1);
      {
        float to_read = 0.f;
#if RELEASED
        float a = 0.f, b = 0.f;
        for (int w = 0; w < WARPS; w++) a += sh.moments[w][0].x, b += sh.moments[w][0].y;
#endif
#pragma unroll
        for (int x = 0; x < SCORES; x++) {
#pragma unroll
          for (int e = 0; e < 2; e++) {
            const int m = 8 * x + 2 * tq + e;
#if PAPER
            float a = 0.f, b = 0.f;
            for (int w = 0; w < WARPS; w++) a += sh.moments[w][m].x, b += sh.moments[w][m].y;
#endif
            const float part = 1.f / (float)(RELEASED ? 3 * REAL_N * REAL_D : REAL_D), rstd = sh.rstd[RELEASED ? 0 : m];
            const bool real = own < REAL_D && 8 * (x % GROUPS) + 2 * tq + e < REAL_N;
            to_normal[x][e] = real ? rstd * (to_normal[x][e] - part * (a + score[x][e] * b)) : 0.f;
#if READ && RELEASED
            to_read = fmaf(to_normal[x][e], sh.cue[m], to_read);
#endif
          }
          store_pair(sh.d_scores + own * LDS + 8 * x + 2 * tq, pair(to_normal[x][0], to_normal[x][1]));
        }
#if READ && RELEASED
        to_read = over_tq(to_read);
        if (tq == 0) {
          sh.d_reads[t * LD + own] = sh.d_reads_turned[own * LDT + t] = narrow(to_read);
          d_reads[at * D + own] = to_read;
        }
#endif
      }
      barrier();
      // ---- phase 5: the gradient of R, then of the gates and of what is written, a few tiles of rows at once
      write_rows(d_scores + at * D * 3 * N, 3 * N, sh.d_scores, LDS, D, 3 * N, THREADS);
      {
        float to_read[2] = {0.f, 0.f}, to_column[2] = {0.f, 0.f}, to_take[2] = {0.f, 0.f}, to_keep[2] = {0.f, 0.f};
        const float2 c = *(const float2*)(sh.column + i0);
#if READ && PAPER
        const float2 v = *(const float2*)(saved_reads + at * D + i0);
#endif
#if GATED && GATE_PARTS > 1
        pair_t held[ROWS][2];
#endif
        pair_t back[TILES][2];
#pragma unroll
        for (int k = 0; k < TILES; k++) {
          const elem* from = project_back + ((warp * TILES + k) * 32 + lane) * 4;
          back[k][0] = load_pair(from), back[k][1] = load_pair(from + 2);
        }
#pragma unroll
        for (int first = 0; first < ROWS; first += TOGETHER) {
#if GATED
          float gate[TOGETHER][8];
          {
            const float2 take = *(const float2*)(sh.gates + i0), keep = *(const float2*)(sh.gates + D + i0);
#pragma unroll
            for (int n = 0; n < TOGETHER; n++)
#pragma unroll
              for (int x = 0; x < 4; x++) gate[n][x] = x & 1 ? take.y : take.x, gate[n][4 + x] = x & 1 ? keep.y : keep.x;
            UNROLL
            for (int k = 0; k < ROWS; k++) {
              pair_t b[4];
              load_pairs((KEPT ? sh.gate_weight : gate_weight) + ((warp * ROWS + k) * 32 + lane) * 8, b);
#pragma unroll
              for (int n = 0; n < TOGETHER; n++) {
                if (first + n >= ROWS) continue;
                pair_t a[4];
                load_left(a, sh.tanh_items + 16 * (first + n) * LD + 16 * k, LD);
                multiply16_twice(gate[n], gate[n] + 4, a, b, b + 2);
              }
            }
          }
#endif
#pragma unroll
          for (int n = 0; n < TOGETHER; n++) {
            const int r = first + n;
            if (r >= ROWS) continue;
            float to_seen[4] = {0.f, 0.f, 0.f, 0.f}, m[4];
#pragma unroll
            for (int k = 0; k < TILES; k++) {
              pair_t a[4];
              load_left(a, sh.d_scores + 16 * r * LDS + 16 * k, LDS);
              multiply16(to_seen, a, back[k]);
            }
            load4(items + (r * THREADS + tid) * 4, m);
#pragma unroll
            for (int h = 0; h < 2; h++) {
              const int i = 16 * r + 8 * h + g;
              const float a = sh.row[i];
              float to_row = 0.f, R[2];
#pragma unroll
              for (int e = 0; e < 2; e++) {
                const int x = 2 * h + e;
                const float ce = e ? c.y : c.x, me = m[x];
                flow[r][x] += to_seen[x];
                float written = a * ce, to_written = flow[r][x], slope = 1.f;
#if READ && PAPER
                to_read[e] = fmaf(to_seen[x], sh.cue[i], to_read[e]);
#endif
#if GATED
                if (RELEASED) written = tanh_of(written), slope = 1.f - written * written;
                const float take = sigmoid_of(gate[n][x]), keep = sigmoid_of(gate[n][4 + x]);
                R[e] = take * written + keep * me;
                gate[n][x] = to_written * written * take * (1.f - take);
                gate[n][4 + x] = to_written * me * keep * (1.f - keep);
                to_take[e] += gate[n][x], to_keep[e] += gate[n][4 + x];
                flow[r][x] = to_written * keep;
                to_written *= take * slope;
#else
                R[e] = written + me;
#endif
                to_row = fmaf(to_written, ce, to_row);
                to_column[e] = fmaf(to_written, a, to_column[e]);
              }
              to_row = over_tq(to_row);
              if (tq == 0) sh.part_row[warp][i] = to_row;
#if READ && PAPER
              R[0] = fmaf(sh.cue[i], v.x, R[0]), R[1] = fmaf(sh.cue[i], v.y, R[1]);
#endif
#if GATHERED
              store_pair(sh.seen + i * LD + i0, pair(R[0], R[1]));
#else
              store_pair(seen + (here * D + i) * D + i0, pair(R[0], R[1]));
#endif
#if GATED
              const pair_t to_keep_now = pair(gate[n][4 + 2 * h], gate[n][5 + 2 * h]);
              store_pair(sh.d_gate + i * LDG + i0, pair(gate[n][2 * h], gate[n][2 * h + 1]));
#if GATE_PARTS > 1
              held[r][h] = to_keep_now;
#else
              store_pair(sh.d_gate + i * LDG + D + i0, to_keep_now);
#endif
#endif
            }
          }
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const float a = over_g(to_column[e]);
          if (g == 0) d_column[at * D + i0 + e] = exactly * a;
#if GATED
          const float b = over_g(to_take[e]), f = over_g(to_keep[e]);
          if (g == 0) d_gates[at * 2 * D + i0 + e] = exactly * b, d_gates[at * 2 * D + D + i0 + e] = exactly * f;
#endif
#if READ && PAPER
          const float read = over_g(to_read[e]);
          if (g == 0) {
            sh.d_reads[t * LD + i0 + e] = sh.d_reads_turned[(i0 + e) * LDT + t] = narrow(read);
            d_reads[at * D + i0 + e] = read;
          }
#endif
        }
      // ---- phase 6: what the gates heard of the memory; in two parts where both do not fit
#if GATED
        float to_tanh[ROWS][4] = {};
#pragma unroll
        for (int part = 0; part < GATE_PARTS; part++) {
          barrier();
#if GATE_PARTS > 1
          if (part > 0) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
              for (int h = 0; h < 2; h++) store_pair(sh.d_gate + (16 * r + 8 * h + g) * LDG + i0, held[r][h]);
            barrier();
          }
#endif
          if (part == 0 && t > first) fetch_items(at - 1);
          write_rows(d_gate + here * D * 2 * D + part * D, 2 * D, sh.d_gate, LDG, D, 2 * D / GATE_PARTS, THREADS);
          UNROLL
          for (int k = 0; k < ROWS; k++) {
            pair_t b[4];
            load_pairs(gate_back + ((warp * ROWS + k) * 32 + lane) * 8, b);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
              for (int which = part; which < part + 2 / GATE_PARTS; which++) {
                pair_t a[4];
                load_left(a, sh.d_gate + 16 * r * LDG + (which - part) * D + 16 * k, LDG);
                multiply16(to_tanh[r], a, b + 2 * which);
              }
          }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            const float2 x = parts(load_pair(sh.tanh_items + (16 * r + 8 * h + g) * LD + i0));
            flow[r][2 * h] = fmaf(to_tanh[r][2 * h], 1.f - x.x * x.x, flow[r][2 * h]);
            flow[r][2 * h + 1] = fmaf(to_tanh[r][2 * h + 1], 1.f - x.y * x.y, flow[r][2 * h + 1]);
          }
#else
        barrier();
        if (t > first) fetch_items(at - 1);
#endif
      }
#if GATHERED
      write_rows(seen + here * D * D, D, sh.seen, LD, D, D, THREADS);
#endif
      for (int i = tid; i < D; i += THREADS) {
        float sum = 0.f;
        for (int w = 0; w < WARPS; w++) sum += sh.part_row[w][i];
        d_row[at * D + i] = exactly * sum;
      }
      fetched();
      barrier();
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const long long place = ((long long)sample * D + 16 * r + 8 * h + g) * D + i0;
        *(float2*)(d_items + place) = make_float2(flow[r][2 * h], flow[r][2 * h + 1]);
#if PAPER && TRANSFER
        *(float2*)(d_moved + place) = make_float2(all[r][2 * h], all[r][2 * h + 1]);
#endif
      }
#if SUMMED
#pragma unroll
    for (int k = 0; k < TIMES; k++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int t = 16 * k + 8 * h + g;
        float2* right_sum = (float2*)(d_right + ((long long)sample * time + t) * D + i0);
        if (t < time) {
          const float2 so_far = goes_on ? *right_sum : make_float2(0.f, 0.f);
          *right_sum = make_float2(fmaf(exactly, to_right[k][2 * h], so_far.x), fmaf(exactly, to_right[k][2 * h + 1], so_far.y));
        }
        float* part = sh.part_address + (warp * STEPS + t) * N + 2 * tq;
        part[0] = to_address[k][2 * h], part[1] = to_address[k][2 * h + 1];
      }
    barrier();
    for (int x = tid; x < time * N; x += THREADS) {
      float sum = 0.f;
      for (int w = 0; w < WARPS; w++) sum += sh.part_address[w * STEPS * N + x];
      float& address_sum = d_address[(long long)sample * time * N + x];
      address_sum = fmaf(exactly, sum, goes_on ? address_sum : 0.f);
    }
#endif
#if RELEASED && TRANSFER
    always0 = over_g(always0), always1 = over_g(always1);
    if (g == 0) *(float2*)(d_moved + (long long)sample * D + i0) = make_float2(always0, always1);
#endif
#pragma unroll
    for (int x = 0; x < SCORES; x++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const long long place = ((long long)sample * 3 * N + 8 * x + 2 * tq + e) * D + own;
        d_gain[place] = to_gain[x][e], d_bias[place] = to_bias[x][e];
      }
    barrier();
  }
}
