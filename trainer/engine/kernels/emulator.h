// The part of CUDA that the kernels of this folder use, for a C++ compiler. A shared library built with it
// runs the same sources on a processor.
//
// A translation unit includes this header, the kernels in their order, a line `KERNEL(name)` for each kernel
// (with its template arguments, if any), and emulator.cpp. Threads of a block are fibers that run one after
// another, each up to its next barrier. Blocks run one after another too.
#pragma once
// Its longjmp refuses to jump to another stack.
#undef _FORTIFY_SOURCE
#pragma GCC optimize("no-strict-aliasing")

#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__ static
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// All variables of this section are filled with 0xFF before each block.
#define __shared__ static __attribute__((section("kernel_shared")))

namespace emulator {

struct Index {
    unsigned x, y, z;
};

// Reads the arguments of a warp's collective, by lane, from where its lanes stored them, and stores the
// results there.
typedef void (*Resolve)(void *const *arguments, unsigned mask);

enum class State { Ready, AtBlock, AtWarp, Finished };

// Bytes that cp.async copies only when they are waited for.
struct Copy {
    void *to;
    const void *from;
    size_t bytes;
};

struct Fiber {
    Index thread;
    State state;
    // The line at which a fiber waits at a block's barrier.
    int line;
    // What a fiber waits for at a warp's barrier.
    unsigned mask;
    Resolve resolve;
    void *argument;
    bool started;
    jmp_buf context;
    // Groups of copies in the order in which they were committed; the last group is not committed yet.
    std::vector<std::vector<Copy>> copies;
};

extern Fiber *current;
extern Index block, block_size, grid_size;
extern unsigned char *dynamic;
// Whether threads run from the last to the first.
extern bool falling;

void sync_block(int line);
void sync_warp(unsigned mask, Resolve resolve, void *argument);

// A device may make a copy at any time from here to when it is waited for. It is made late if threads run in
// rising order, and at once if they run in falling order.
inline void copy_async(void *to, const void *from, size_t bytes) {
    if (falling) {
        memcpy(to, from, bytes);
        return;
    }
    if (current->copies.empty()) current->copies.emplace_back();
    current->copies.back().push_back({to, from, bytes});
}
inline void commit_copies() { current->copies.emplace_back(); }
// Makes the copies of all groups except the newest `left`.
inline void wait_copies(size_t left) {
    std::vector<std::vector<Copy>> &groups = current->copies;
    for (; groups.size() > left + 1; groups.erase(groups.begin())) {
        for (const Copy &copy : groups[0]) memcpy(copy.to, copy.from, copy.bytes);
    }
}

inline unsigned lane() { return current->thread.x % 32; }

struct Kernel {
    const char *name;
    void (*run)(void *const *arguments);
};
inline std::vector<Kernel> &kernels() {
    static std::vector<Kernel> all;
    return all;
}
struct Registration {
    Registration(const char *name, void (*run)(void *const *)) { kernels().push_back({name, run}); }
};

template <auto F> struct Launcher;
template <class... A, void (*F)(A...)> struct Launcher<F> {
    static void run(void *const *arguments) { call(arguments, std::index_sequence_for<A...>()); }
    template <size_t... I> static void call(void *const *arguments, std::index_sequence<I...>) {
        F(*static_cast<std::remove_const_t<A> *>(arguments[I])...);
    }
};

template <class T> struct Shuffle {
    T value, result;
    unsigned source;

    static void resolve(void *const *arguments, unsigned mask) {
        for (unsigned i = 0; i < 32; i++) {
            if (!(mask >> i & 1)) continue;
            auto *to = static_cast<Shuffle *>(arguments[i]);
            if (mask >> to->source & 1) {
                to->result = static_cast<Shuffle *>(arguments[to->source])->value;
            } else {
                memset(&to->result, 0xFF, sizeof(T));
            }
        }
    }
};

template <class T> T shuffle(unsigned mask, T value, unsigned source) {
    Shuffle<T> argument = {value, value, source % 32};
    sync_warp(mask, Shuffle<T>::resolve, &argument);
    return argument.result;
}

struct Ballot {
    bool vote;
    unsigned result;

    static void resolve(void *const *arguments, unsigned mask) {
        unsigned result = 0;
        for (unsigned i = 0; i < 32; i++) {
            if (mask >> i & 1) result |= (unsigned)static_cast<Ballot *>(arguments[i])->vote << i;
        }
        for (unsigned i = 0; i < 32; i++) {
            if (mask >> i & 1) static_cast<Ballot *>(arguments[i])->result = result;
        }
    }
};

inline void resolve_nothing(void *const *, unsigned) {}

inline float widen(unsigned bits) {
    bits <<= 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32, with the PTX ISA's fragments. Register r of lane 4g +
// t holds, of A, row g (+ 8 if r is odd) and columns 2t, 2t + 1 (+ 8 if r >= 2); of B, rows 2t, 2t + 1 (+ 8
// r) and column g; of the sums, row g (+ 8 if r >= 2) and column 2t + r % 2.
struct Mma {
    float *sums;
    const unsigned *a, *b;

    static void resolve(void *const *arguments, unsigned) {
        float a[16][16], b[8][16];
        for (unsigned lane = 0; lane < 32; lane++) {
            const Mma &from = *static_cast<const Mma *>(arguments[lane]);
            unsigned g = lane / 4, t = lane % 4;
            for (unsigned i = 0; i < 8; i++) {
                a[g + 8 * (i / 2 % 2)][2 * t + i % 2 + 8 * (i / 4)] =
                    widen(from.a[i / 2] >> 16 * (i % 2) & 0xFFFF);
            }
            for (unsigned i = 0; i < 4; i++) {
                b[g][2 * t + i % 2 + 8 * (i / 2)] = widen(from.b[i / 2] >> 16 * (i % 2) & 0xFFFF);
            }
        }
        for (unsigned lane = 0; lane < 32; lane++) {
            const Mma &to = *static_cast<const Mma *>(arguments[lane]);
            for (unsigned i = 0; i < 4; i++) {
                const float *row = a[lane / 4 + 8 * (i / 2)], *column = b[2 * (lane % 4) + i % 2];
                float sum = 0;
                for (unsigned k = 0; k < 16; k++) sum += row[k] * column[k];
                to.sums[i] += sum;
            }
        }
    }
};

// ldmatrix.sync.aligned.m8n8.x4.shared.b16: lane 8m + r gives the address of row r of matrix m. Lane 4g + t
// receives, of each matrix, the elements 2t and 2t + 1 of row g (transposed: of column g).
template <bool TRANSPOSED> struct LoadMatrix {
    const void *row;
    unsigned *to;

    static void resolve(void *const *arguments, unsigned) {
        unsigned short matrix[4][8][8];
        for (unsigned lane = 0; lane < 32; lane++) {
            memcpy(matrix[lane / 8][lane % 8], static_cast<const LoadMatrix *>(arguments[lane])->row, 16);
        }
        for (unsigned lane = 0; lane < 32; lane++) {
            unsigned *to = static_cast<const LoadMatrix *>(arguments[lane])->to;
            unsigned g = lane / 4, t = lane % 4;
            for (unsigned m = 0; m < 4; m++) {
                unsigned low = TRANSPOSED ? matrix[m][2 * t][g] : matrix[m][g][2 * t];
                unsigned high = TRANSPOSED ? matrix[m][2 * t + 1][g] : matrix[m][g][2 * t + 1];
                to[m] = low | high << 16;
            }
        }
    }
};

} // namespace emulator

#define threadIdx (emulator::current->thread)
#define blockIdx (emulator::block)
#define blockDim (emulator::block_size)
#define gridDim (emulator::grid_size)

#define EMULATOR_JOIN(a, b) a##b
#define EMULATOR_NAME(a, b) EMULATOR_JOIN(a, b)
#define KERNEL(...)                                                                                          \
    static emulator::Registration EMULATOR_NAME(emulator_kernel_, __COUNTER__)(                              \
        #__VA_ARGS__, emulator::Launcher<&__VA_ARGS__>::run);

struct __attribute__((may_alias, aligned(8))) uint2 {
    unsigned x, y;
};
struct __attribute__((may_alias, aligned(16))) uint4 {
    unsigned x, y, z, w;
};
struct __attribute__((may_alias, aligned(8))) float2 {
    float x, y;
};
struct __attribute__((may_alias, aligned(16))) float4 {
    float x, y, z, w;
};

#define __syncthreads() emulator::sync_block(__LINE__)
static inline void __syncwarp(unsigned mask = ~0u) {
    emulator::sync_warp(mask, emulator::resolve_nothing, nullptr);
}
template <class T> static inline T __shfl_sync(unsigned mask, T value, unsigned source) {
    return emulator::shuffle(mask, value, source);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, unsigned change) {
    return emulator::shuffle(mask, value, emulator::lane() ^ change);
}
static inline unsigned __ballot_sync(unsigned mask, bool vote) {
    emulator::Ballot argument = {vote, 0};
    emulator::sync_warp(mask, emulator::Ballot::resolve, &argument);
    return argument.result;
}
template <class T> static inline T atomicAdd(T *to, T value) {
    T before = *to;
    *to += value;
    return before;
}
template <class T> static inline T atomicMin(T *to, T value) {
    T before = *to;
    *to = value < before ? value : before;
    return before;
}
template <class T> static inline T atomicOr(T *to, T value) {
    T before = *to;
    *to |= value;
    return before;
}
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }
static inline float __fdividef(float x, float y) { return x / y; }
static inline unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, 4);
    return bits;
}
static inline float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
