// Gathers up to three weights into one piece of memory, as operands. A place has its weight in the two highest bits
// below the sign; where it is negative, there is a zero.
struct Shared {
  char unused;
};

extern "C" __global__ void pack(const int* __restrict__ places, const float* __restrict__ first, const float* __restrict__ second,
                                const float* __restrict__ third, elem* __restrict__ found, int count) {
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS) {
    const int place = places[i], which = place >> 28;
    const float* from = which == 0 ? first : which == 1 ? second : third;
    found[i] = narrow(place < 0 ? 0.f : from[place & 0xfffffff]);
  }
}
