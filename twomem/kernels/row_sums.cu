// What the gradients of the scores of a sequence add up to: for the bias of the projection, for what met the reads,
// and for the powers of what is kept. A block has a sequence, a warp a step. Lanes have eight columns of a row each.
#define COLUMNS (3 * N)
#define GROUPS (COLUMNS / 8)
#define SIDE (32 / GROUPS)
#define WARPS (THREADS / 32)
#define PARTS (THREADS / STEPS)

struct Shared {
  float bias[WARPS][COLUMNS], kept[PARTS][STEPS];
};

// the sum over the lanes that have the same columns
DI float over_rows(float x, int group) {
  float sum = 0.f;
#pragma unroll
  for (int row = 0; row < SIDE; row++) sum += from_lane(x, row * GROUPS + group);
  return sum;
}

// scores: batch time D COLUMNS; meets: batch time (D if released, else COLUMNS); met: batch time STEPS N
extern "C" __global__ void row_sums(const elem* __restrict__ scores, const float* __restrict__ meets, const float* __restrict__ met,
                                    const float* __restrict__ d_met, float* __restrict__ bias, float* __restrict__ cue,
                                    float* __restrict__ kept, int time) {
  SHARED_MEMORY(Shared, sh)
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row = lane / GROUPS, group = lane % GROUPS;
  const long long first = (long long)blockIdx.x * time;
  float all[8] = {};
  for (int t = warp; t < time; t += WARPS) {
    const elem* from = scores + (first + t) * D * COLUMNS;
#if RELEASED
    float sum[8] = {};
    if (row < SIDE)
#pragma unroll 4
      for (int i = row; i < D; i += SIDE) {
        const float by = READ ? meets[(first + t) * D + i] : 0.f;
        pair_t some[4];
        load_pairs(from + i * COLUMNS + 8 * group, some);
#pragma unroll
        for (int k = 0; k < 4; k++) {
          const float2 x = parts(some[k]);
          all[2 * k] += x.x, sum[2 * k] = fmaf(by, x.x, sum[2 * k]);
          all[2 * k + 1] += x.y, sum[2 * k + 1] = fmaf(by, x.y, sum[2 * k + 1]);
        }
      }
    for (int k = 0; READ && k < 8; k++) {
      const float total = over_rows(sum[k], group);
      if (row == 0) cue[(first + t) * COLUMNS + 8 * group + k] = total;
    }
#else
    for (int i = lane; i < D; i += 32) {
      float sum = 0.f;
      for (int n = 0; n < COLUMNS; n += 8) {
        pair_t some[4];
        load_pairs(from + i * COLUMNS + n, some);
#pragma unroll
        for (int k = 0; k < 4; k++) {
          const float2 x = parts(some[k]);
          const float* by = meets + (first + t) * COLUMNS + n + 2 * k;
          sum = fmaf(by[0], x.x, fmaf(by[1], x.y, sum));
        }
      }
      cue[(first + t) * D + i] = sum;
    }
#endif
  }
  for (int k = 0; k < 8; k++) {
    const float total = over_rows(all[k], group);
    if (row == 0) sh.bias[warp][8 * group + k] = total;
  }
  const int part = threadIdx.x / STEPS, lag = threadIdx.x % STEPS;
  if (KEPT && part < PARTS) {
    float sum = 0.f;
#pragma unroll 2
    for (int t = part; t + 1 + lag < time; t += PARTS) {
      const long long at = ((first + t) * STEPS + t + 1 + lag) * N;
#pragma unroll
      for (int j = 0; j < N; j += 4) {
        const float4 x = *(const float4*)(met + at + j), y = *(const float4*)(d_met + at + j);
        sum = fmaf(x.x, y.x, fmaf(x.y, y.y, fmaf(x.z, y.z, fmaf(x.w, y.w, sum))));
      }
    }
    sh.kept[part][lag] = sum;
  }
  barrier();
  for (int x = threadIdx.x; RELEASED && x < COLUMNS; x += THREADS) {
    float sum = 0.f;
    for (int w = 0; w < WARPS; w++) sum += sh.bias[w][x];
    bias[blockIdx.x * COLUMNS + x] = sum;
  }
  for (int x = threadIdx.x; KEPT && x <= time; x += THREADS) {
    float sum = 0.f;
    for (int p = 0; p < PARTS && x < time; p++) sum += sh.kept[p][x];
    kept[blockIdx.x * (time + 1) + x] = sum;
  }
}
