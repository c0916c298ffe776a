// What the inputs alone decide, for few rows: a block has a row.
#include "layer.cuh"

struct Shared {
  float x[INPUTS], left[D], right[D], address[N], gates[2 * D], cue[CUES];
};

// the softmax of a few numbers, one of them for each thread
DI float share(const float* x, int own) {
  float largest = x[0], sum = 0.f;
  for (int n = 1; n < N; n++) largest = fmaxf(largest, x[n]);
  for (int n = 0; n < N; n++) sum += expf(x[n] - largest);
  return expf(x[own] - largest) / sum;
}

// xs: time batch INPUTS. Of all that is found, and of all weights, what is not asked for is nothing. Without a projection the cue
// is `right` times the blend.
extern "C" __global__ void hear(const float* __restrict__ xs, const float* __restrict__ left_weight, const float* __restrict__ left_bias,
                                const float* __restrict__ right_weight, const float* __restrict__ right_bias,
                                const float* __restrict__ address_weight, const float* __restrict__ address_bias,
                                const float* __restrict__ gate_weight, const float* __restrict__ gate_bias,
                                const float* __restrict__ more_bias, const float* __restrict__ take, const float* __restrict__ keep,
                                const float* __restrict__ project, const float* __restrict__ blend, float* __restrict__ left,
                                float* __restrict__ right, float* __restrict__ address, float* __restrict__ gates,
                                float* __restrict__ cue, int time, int batch) {
  SHARED_MEMORY(Shared, sh)
  const long long row = blockIdx.x, from = (row % time * batch + row / time) * INPUTS;
  for (int i = threadIdx.x; i < INPUTS; i += THREADS) sh.x[i] = xs[from + i];
  barrier();
  layer(sh.left, sh.x, left_weight, left_bias, INPUTS, D, false);
  layer(sh.right, sh.x, right_weight, right_bias, INPUTS, D, false);
  if (address_weight) layer(sh.address, sh.x, address_weight, address_bias, INPUTS, N, false);
  barrier();
  if (gate_weight) layer(sh.gates, sh.left, gate_weight, gate_bias, D, 2 * D, false);
  if (project) layer(sh.cue, sh.right, project, nullptr, D, CUES, false);
  barrier();
  const float by = blend ? *blend : 0.f;
  for (int i = threadIdx.x; i < D; i += THREADS) left[row * D + i] = sh.left[i], right[row * D + i] = sh.right[i];
  for (int i = threadIdx.x; address && i < N; i += THREADS) address[row * N + i] = share(sh.address, i);
  for (int i = threadIdx.x; gates && i < 2 * D; i += THREADS)
    gates[row * 2 * D + i] = sh.gates[i] + (more_bias ? more_bias[i] : 0.f) + *(i < D ? take : keep);
  for (int i = threadIdx.x; cue && i < CUES; i += THREADS) cue[row * CUES + i] = by * (project ? sh.cue[i] : sh.right[i]);
}
