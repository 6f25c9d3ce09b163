// Definitions that all kernels share: numbers, loads and stores, sums over warps and blocks, and instructions
// without a name in C++.
//
// All arithmetic is in float unless a kernel states otherwise. The order of a sum depends only on sizes:
// there are no atomics on floating-point numbers, and numbers that are read four at a time are added in the
// same order as those that are read one by one.

typedef unsigned int u32;
typedef unsigned long long u64;

// The upper half of a float.
struct bf16 {
    unsigned short bits;
};

// A sequence's queries in the batch, and its keys. There are `keys` positions; the queries are the last
// `q_len`.
struct Span {
    u32 q_start, q_len, keys;
    // The span has `segments` segments, from number `segment` of the table on.
    u32 segment, segments;
};

// The keys from `position` on, up to the next segment's, lie in the store from `row` on.
struct Segment {
    u32 position, row;
};

// Stands for no row: the row of a padding token, or of a tile's row beyond its keys.
static const u32 NO_ROW = 0xFFFFFFFFu;

static const u32 WARP = 32;
static const u32 WHOLE_WARP = 0xFFFFFFFFu;

#ifdef __CUDACC_RTC__

extern __shared__ __align__(16) unsigned char dynamic_shared[];

static __device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

// Rounds to nearest, ties to even.
static __device__ __forceinline__ bf16 to_bf16(float x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

// Packs two numbers into a word, `low` in its lower half.
static __device__ __forceinline__ u32 to_bf16_pair(float low, float high) {
    u32 y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

// Packs the lower halves of two words into one (`a`'s in its lower half), or the upper halves.
static __device__ __forceinline__ u32 lower_halves(u32 a, u32 b) { return __byte_perm(a, b, 0x5410); }
static __device__ __forceinline__ u32 upper_halves(u32 a, u32 b) { return __byte_perm(a, b, 0x7632); }

// sums (16 × 8) += a (16 × 16) · b (16 × 8), computed by a whole warp. The lanes hold fragments as in the PTX
// ISA for mma.m16n8k16.
static __device__ __forceinline__ void mma(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// An address in shared memory, in bytes.
typedef u32 SharedAddress;

static __device__ __forceinline__ SharedAddress shared_address(const void *p) {
    u32 at;
    asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(at) : "l"(p));
    return at;
}

// A whole warp loads four 8 × 8 matrices from shared memory. Lane 8m + r gives the address of row r of matrix
// m, 16 aligned bytes. Each lane receives two neighbouring elements of a row of each matrix.
static __device__ __forceinline__ void load_matrices(u32 (&to)[4], SharedAddress row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

// Like `load_matrices`, with each matrix transposed.
static __device__ __forceinline__ void load_transposed(u32 (&to)[4], SharedAddress row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
}

// 1 / x to within one unit in the last place, by one instruction; 0 if that is below 2⁻¹²⁶.
static __device__ __forceinline__ float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Starts a copy of 16 bytes from global to shared memory; both addresses are aligned to 16.
static __device__ __forceinline__ void copy_async(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(shared_address(to)), "l"(from)
                 : "memory");
}

// The same for 4 bytes, aligned to 4.
static __device__ __forceinline__ void copy_word_async(void *to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 :
                 : "r"(shared_address(to)), "l"(from)
                 : "memory");
}

// Makes a group of the copies that this thread has started since the last group.
static __device__ __forceinline__ void commit_copies() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

// Waits for all groups of this thread except the newest LEFT.
template <u32 LEFT> static __device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
}

#else

#define dynamic_shared emulator::dynamic

static inline float to_float(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

static inline bf16 to_bf16(float x) {
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return {0x7FFF};
    return {(unsigned short)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

static inline u32 to_bf16_pair(float low, float high) {
    return to_bf16(low).bits | (u32)to_bf16(high).bits << 16;
}
static inline u32 lower_halves(u32 a, u32 b) { return (a & 0xFFFF) | b << 16; }
static inline u32 upper_halves(u32 a, u32 b) { return a >> 16 | (b & 0xFFFF0000); }

static inline void mma(float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    emulator::Mma argument = {sums, a, b};
    emulator::sync_warp(~0u, emulator::Mma::resolve, &argument);
}

typedef const unsigned char *SharedAddress;

static inline SharedAddress shared_address(const void *p) { return (SharedAddress)p; }

static inline void load_matrices(u32 (&to)[4], SharedAddress row) {
    emulator::LoadMatrix<false> argument = {row, to};
    emulator::sync_warp(~0u, emulator::LoadMatrix<false>::resolve, &argument);
}

static inline void load_transposed(u32 (&to)[4], SharedAddress row) {
    emulator::LoadMatrix<true> argument = {row, to};
    emulator::sync_warp(~0u, emulator::LoadMatrix<true>::resolve, &argument);
}

static inline float reciprocal(float x) { return 1 / x; }

static inline void copy_async(void *to, const void *from) { emulator::copy_async(to, from, 16); }
static inline void copy_word_async(void *to, const void *from) { emulator::copy_async(to, from, 4); }
static inline void commit_copies() { emulator::commit_copies(); }
template <u32 LEFT> static inline void wait_copies() { emulator::wait_copies(LEFT); }

#endif

static __device__ __forceinline__ float to_float(float x) { return x; }

static __device__ __forceinline__ void put(float &to, float x) { to = x; }
static __device__ __forceinline__ void put(bf16 &to, float x) { to = to_bf16(x); }

static __device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xFF800000u); }

// The lowest finite number.
static const float LOWEST = -3.402823466e38f;

// Whether four numbers at `p`, and at every fourth number after it, can be loaded and stored at once.
template <class T> static __device__ __forceinline__ bool packable(const T *p) {
    return (size_t)p % (4 * sizeof(T)) == 0;
}

// Like `packable`, for the beginnings of rows that begin `stride` elements apart.
template <class T> static __device__ __forceinline__ bool packable_rows(const T *p, size_t stride) {
    return packable(p) && stride % 4 == 0;
}

static __device__ __forceinline__ void load_pack(float (&v)[4], const float *p) {
    float4 pack = *(const float4 *)p;
    v[0] = pack.x, v[1] = pack.y, v[2] = pack.z, v[3] = pack.w;
}

static __device__ __forceinline__ void load_pack(float (&v)[4], const bf16 *p) {
    uint2 pack = *(const uint2 *)p;
    v[0] = __uint_as_float(pack.x << 16), v[1] = __uint_as_float(pack.x & 0xFFFF0000u);
    v[2] = __uint_as_float(pack.y << 16), v[3] = __uint_as_float(pack.y & 0xFFFF0000u);
}

static __device__ __forceinline__ void store_pack(float *p, const float (&v)[4]) {
    *(float4 *)p = {v[0], v[1], v[2], v[3]};
}

static __device__ __forceinline__ void store_pack(bf16 *p, const float (&v)[4]) {
    *(uint2 *)p = {to_bf16_pair(v[0], v[1]), to_bf16_pair(v[2], v[3])};
}

// Loads up to four numbers from `p` on, `left` at most, followed by zeros. `packed` means that `p` is aligned
// to four numbers.
template <class T>
static __device__ __forceinline__ void load4(float (&v)[4], const T *p, size_t left, bool packed) {
    if (packed && left >= 4) {
        load_pack(v, p);
    } else {
#pragma unroll
        for (u32 i = 0; i < 4; i++) v[i] = i < left ? to_float(p[i]) : 0;
    }
}

// The reverse of `load4`.
template <class T>
static __device__ __forceinline__ void store4(T *p, const float (&v)[4], size_t left, bool packed) {
    if (packed && left >= 4) {
        store_pack(p, v);
    } else {
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            if (i < left) put(p[i], v[i]);
        }
    }
}

// Number of packs of four numbers that a thread loads before it uses the first of them.
static const u32 PACKS_AT_ONCE = 4;

// Calls f(i, v) with the numbers row[i..i + 4] for each i = from + 4 · (thread + k · threads) below `to`, in
// order. Numbers from `to` on are minus infinity, and there may be calls beyond. `from` is a multiple of 4, and
// `to` too, unless the row ends there.
template <class F>
static __device__ __forceinline__ void
each_pack(const float *row, u32 from, u32 to, u32 thread, u32 threads, F f) {
    bool packed = packable(row) && to % 4 == 0;
    for (u32 first = from + 4 * thread; first < to; first += 4 * threads * PACKS_AT_ONCE) {
        float v[PACKS_AT_ONCE][4];
#pragma unroll
        for (u32 p = 0; p < PACKS_AT_ONCE; p++) {
            u32 i = first + 4 * threads * p;
#pragma unroll
            for (u32 j = 0; j < 4; j++) v[p][j] = minus_infinity();
            if (packed) {
                if (i < to) load_pack(v[p], row + i);
            } else {
#pragma unroll
                for (u32 j = 0; j < 4; j++) {
                    if (i + j < to) v[p][j] = row[i + j];
                }
            }
        }
#pragma unroll
        for (u32 p = 0; p < PACKS_AT_ONCE; p++) f(first + 4 * threads * p, v[p]);
    }
}

// The index of this thread in the first dimension of the grid, and the number of threads there.
static __device__ __forceinline__ size_t thread_in_grid() {
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}
static __device__ __forceinline__ size_t threads_of_grid() { return (size_t)gridDim.x * blockDim.x; }

// The sum over a warp, in every lane. All lanes add in the same pairwise tree.
template <class T> static __device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
    for (u32 step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(WHOLE_WARP, x, step);
    return x;
}

static __device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (u32 step = WARP / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(WHOLE_WARP, x, step));
    return x;
}

// The sum over a block of whole warps, in every thread.
template <class T> static __device__ __forceinline__ T block_sum(T x) {
    __shared__ T sums[32];
    x = warp_sum(x);
    // Other threads may still be reading the result of an earlier call.
    __syncthreads();
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = x;
    __syncthreads();
    T sum = sums[0];
    for (u32 i = 1; i < blockDim.x / WARP; i++) sum += sums[i];
    return sum;
}

static __device__ __forceinline__ float block_max(float x) {
    __shared__ float largest[32];
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % WARP == 0) largest[threadIdx.x / WARP] = x;
    __syncthreads();
    float result = largest[0];
    for (u32 i = 1; i < blockDim.x / WARP; i++) result = fmaxf(result, largest[i]);
    return result;
}
