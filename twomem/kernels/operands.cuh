// What the tensor cores multiply, at three precisions: pairs of neighbours along the contraction.
//
// PRECISION 0: fp16, 1: bf16, 2: fp32 by three products of tf32 (high and low halves), 3: tf32.
// `elem` is how an operand is held in shared memory, `pair_t` two neighbours of it in registers.
// A tile of the left operand has 16 rows; lane = 4 * g + tq holds the neighbours 2 tq, 2 tq + 1 of
// rows g and g + 8. Of the right operand it holds the same neighbours of column g. The result has
// (row g, columns 2 tq and 2 tq + 1), then the same of row g + 8, always in fp32.
#ifndef EMULATED
#define DI __device__ __forceinline__

DI void barrier() { asm volatile("bar.sync 0;" ::: "memory"); }
DI void warp_barrier() { __syncwarp(); }
DI void prefetch(const float* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
DI float from_lane(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
DI float from_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }

#if PRECISION < 2
typedef unsigned short elem;
typedef unsigned int pair_t;
#if PRECISION == 0
#define KIND "f16"
#define INEXACT "cvt.rn.f16x2.f32"
#define PRODUCT "mul.rn.f16x2"
#else
#define KIND "bf16"
#define INEXACT "cvt.rn.bf16x2.f32"
#define PRODUCT "mul.rn.bf16x2"
#endif
DI pair_t pair(float x, float y) {
  pair_t r;
  asm(INEXACT " %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
  return r;
}
DI pair_t product(pair_t x, pair_t y) {
  pair_t r;
  asm(PRODUCT " %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
  return r;
}
DI pair_t no_pair() { return 0; }
DI pair_t load_pair(const elem* p) { return *(const pair_t*)p; }
DI void load_pairs(const elem* p, pair_t* x) {
  const uint4 r = *(const uint4*)p;
  x[0] = r.x, x[1] = r.y, x[2] = r.z, x[3] = r.w;
}
DI void store_pair(elem* p, pair_t x) { *(pair_t*)p = x; }
DI elem narrow(float x) { return (elem)(pair(x, 0.f) & 0xffffu); }
DI float widen(elem x) {
  float r;
#if PRECISION == 0
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
#else
  r = __uint_as_float((unsigned)x << 16);
#endif
  return r;
}
// 16 x 8 += 16 x 16 times 16 x 8: a = neighbours 0 to 7 of rows g and g + 8, then neighbours 8 to 15
DI void multiply16(float* d, const pair_t* a, const pair_t* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DI void multiply8(float* d, pair_t a0, pair_t a1, pair_t b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." KIND "." KIND ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b));
}
DI float tanh_of(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DI float sigmoid_of(float x) { return fmaf(0.5f, tanh_of(0.5f * x), 0.5f); }
// (columns 2 tq, 2 tq + 1 of row g) becomes (rows 2 tq, 2 tq + 1 of column g), for a tile of 8 x 8
DI pair_t transposed(float x, float y) {
  pair_t r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(pair(x, y)));
  return r;
}
#else
typedef float elem;
typedef float2 pair_t;
DI pair_t pair(float x, float y) { return make_float2(x, y); }
DI pair_t product(pair_t x, pair_t y) { return make_float2(x.x * y.x, x.y * y.y); }
DI pair_t no_pair() { return make_float2(0.f, 0.f); }
DI pair_t load_pair(const elem* p) { return *(const float2*)p; }
DI void load_pairs(const elem* p, pair_t* x) {
  const float4 r = ((const float4*)p)[0], q = ((const float4*)p)[1];
  x[0] = make_float2(r.x, r.y), x[1] = make_float2(r.z, r.w), x[2] = make_float2(q.x, q.y), x[3] = make_float2(q.z, q.w);
}
DI void store_pair(elem* p, pair_t x) { *(float2*)p = x; }
DI elem narrow(float x) { return x; }
DI float widen(elem x) { return x; }
DI float high(float x) {
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return __uint_as_float(r);
}
DI void multiply_tf32(float* d, float a0, float a1, float a2, float a3, float b0, float b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)),
                 "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}
// neighbour x stands for tq, neighbour y for tq + 4: the order of a contraction is free
DI void multiply8(float* d, pair_t a0, pair_t a1, pair_t b) {
  const float h[6] = {high(a0.x), high(a1.x), high(a0.y), high(a1.y), high(b.x), high(b.y)};
#if PRECISION == 2
  // tensor cores cut the sums that they make, so long sums are made here, where they are rounded
  const float l[6] = {high(a0.x - h[0]), high(a1.x - h[1]), high(a0.y - h[2]), high(a1.y - h[3]), high(b.x - h[4]), high(b.y - h[5])};
  float part[4] = {0.f, 0.f, 0.f, 0.f};
  multiply_tf32(part, l[0], l[1], l[2], l[3], h[4], h[5]);
  multiply_tf32(part, h[0], h[1], h[2], h[3], l[4], l[5]);
  multiply_tf32(part, h[0], h[1], h[2], h[3], h[4], h[5]);
  d[0] += part[0], d[1] += part[1], d[2] += part[2], d[3] += part[3];
#else
  multiply_tf32(d, h[0], h[1], h[2], h[3], h[4], h[5]);
#endif
}
DI void multiply16(float* d, const pair_t* a, const pair_t* b) {
  multiply8(d, a[0], a[1], b[0]);
  multiply8(d, a[2], a[3], b[1]);
}
DI float tanh_of(float x) { return tanhf(x); }
DI float sigmoid_of(float x) { return 1.f / (1.f + expf(-x)); }
DI pair_t transposed(float x, float y) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3, from = 8 * tq + (g >> 1);
  const float x0 = from_lane(x, from), y0 = from_lane(y, from), x1 = from_lane(x, from + 4), y1 = from_lane(y, from + 4);
  return g & 1 ? make_float2(y0, y1) : make_float2(x0, x1);
}
#endif
#endif

// three products in the place of one make so much code that loops are left as loops
#if PRECISION < 2
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("unroll 1")
#endif

// the same exchange, exact at any precision
DI float2 transposed_exact(float x, float y) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3, from = 8 * tq + (g >> 1);
  const float x0 = from_lane(x, from), y0 = from_lane(y, from), x1 = from_lane(x, from + 4), y1 = from_lane(y, from + 4);
  return g & 1 ? make_float2(y0, y1) : make_float2(x0, x1);
}
// brings numbers from memory near to where a later step reads them, a line of 32 a thread
DI void bring(const float* from, int count, int threads) {
  for (int x = 32 * (int)threadIdx.x; x < count; x += 32 * threads) prefetch(from + x);
}
// the sum over the four lanes that share g, or over the eight that share tq
DI float over_tq(float x) {
  x += from_xor(x, 1);
  return x + from_xor(x, 2);
}
DI float over_g(float x) {
  x += from_xor(x, 4);
  x += from_xor(x, 8);
  return x + from_xor(x, 16);
}
#ifndef EMULATED
// the block's shared memory, laid out as a struct
#define SHARED_MEMORY(kind, name)                          \
  extern __shared__ __align__(16) unsigned char memory_[]; \
  kind& name = *(kind*)memory_;
#endif
#ifndef EMULATED
// four pairs, as `load_pairs` reads them
#if PRECISION < 2
DI void store_pairs(elem* p, const pair_t* x) { *(uint4*)p = make_uint4(x[0], x[1], x[2], x[3]); }
#else
DI void store_pairs(elem* p, const pair_t* x) {
  ((float4*)p)[0] = make_float4(x[0].x, x[0].y, x[1].x, x[1].y);
  ((float4*)p)[1] = make_float4(x[2].x, x[2].y, x[3].x, x[3].y);
}
#endif
// COUNT numbers (1, 2 or 4) to shared memory, without waiting; they are there for this thread after `copied`
template <int COUNT>
DI void copy(float* to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(4 * COUNT) : "memory");
}
DI void copied() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#endif
