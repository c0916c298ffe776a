// What a block of THREADS makes of one row by a linear layer. A warp has four outputs at a time.
#define WARPS (THREADS / 32)
#define EACH 4

// bias may be nothing; `rectified`: what is negative becomes zero
DI void layer(float* to, const float* x, const float* weight, const float* bias, int inputs, int outputs, bool rectified) {
  const int lane = threadIdx.x & 31;
  for (int first = EACH * (threadIdx.x >> 5); first < outputs; first += EACH * WARPS) {
    float sum[EACH] = {};
#pragma unroll 4
    for (int i = lane; i < inputs; i += 32)
#pragma unroll
      for (int k = 0; k < EACH; k++) {
        const int output = first + k < outputs ? first + k : outputs - 1;
        sum[k] = fmaf(weight[(long long)output * inputs + i], x[i], sum[k]);
      }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
      const float found = over_g(over_tq(sum[k])), whole = bias && first + k < outputs ? found + bias[first + k] : found;
      if (lane == 0 && first + k < outputs) to[first + k] = rectified && whole < 0.f ? 0.f : whole;
    }
  }
}
