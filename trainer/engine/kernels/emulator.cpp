// Runs blocks of fibers; emulator.h describes how to build a library with it.
#include <cstdio>
#include <mutex>
#include <sys/mman.h>
#include <ucontext.h>

namespace emulator {

Fiber *current;
Index block, block_size, grid_size;
unsigned char *dynamic;
bool falling;

} // namespace emulator

// The linker's names for the ends of the section.
extern "C" unsigned char __start_kernel_shared[], __stop_kernel_shared[];

namespace {

using emulator::current;
using emulator::falling;
using emulator::Fiber;
using emulator::State;

const unsigned MOST_THREADS = 1024;
const size_t STACK = 256 << 10;
// Written after a block's dynamic shared memory, and checked when the block is done.
const size_t GUARD = 4096;
const unsigned char GUARD_BYTE = 0xA5;

// Keeps the section from being empty.
__attribute__((used)) __shared__ unsigned long long nothing_shared;

Fiber fibers[MOST_THREADS];
unsigned char *stacks;
jmp_buf scheduler;
ucontext_t scheduler_stack;
void (*running)(void *const *);
void *const *running_arguments;
char error[512];

__attribute__((noinline)) void leave() {
    if (!_setjmp(current->context)) _longjmp(scheduler, 1);
}

void live() {
    for (;;) {
        running(running_arguments);
        current->state = State::Finished;
        leave();
    }
}

__attribute__((noinline)) void resume(Fiber *fiber) {
    current = fiber;
    if (_setjmp(scheduler)) return;
    if (fiber->started) _longjmp(fiber->context, 1);
    fiber->started = true;
    ucontext_t fresh;
    getcontext(&fresh);
    fresh.uc_stack.ss_sp = stacks + (fiber - fibers) * STACK;
    fresh.uc_stack.ss_size = STACK;
    fresh.uc_link = &scheduler_stack;
    makecontext(&fresh, live, 0);
    setcontext(&fresh);
}

// Resumes the threads that wait at the block's barrier, if all unfinished threads do.
bool release(unsigned threads) {
    const Fiber *first = nullptr;
    for (unsigned i = 0; i < threads; i++) {
        const Fiber &fiber = fibers[i];
        if (fiber.state == State::Finished) continue;
        if (!first) first = &fiber;
        const emulator::Index &at = emulator::block;
        if (fiber.state == State::AtWarp) {
            snprintf(
                error, sizeof error,
                "block (%u, %u, %u): thread %u waits for lanes %#x of its warp, which do not all come", at.x,
                at.y, at.z, i, fiber.mask);
            return false;
        }
        if (fiber.line != first->line && first->state == State::AtBlock) {
            snprintf(
                error, sizeof error,
                "block (%u, %u, %u): thread %u waits at the barrier of line %d, thread %u at that of line %d",
                at.x, at.y, at.z, i, fiber.line, first->thread.x, first->line);
            return false;
        }
    }
    for (unsigned i = 0; i < threads; i++) {
        if (fibers[i].state == State::AtBlock) fibers[i].state = State::Ready;
    }
    return true;
}

bool run_block(unsigned threads) {
    for (unsigned i = 0; i < threads; i++) {
        fibers[i].thread = {i, 0, 0};
        fibers[i].state = State::Ready;
        fibers[i].line = 0;
        fibers[i].copies.clear();
    }
    for (;;) {
        bool progress = false, finished = true;
        for (unsigned i = 0; i < threads; i++) {
            Fiber *fiber = &fibers[falling ? threads - 1 - i : i];
            if (fiber->state == State::Ready) {
                resume(fiber);
                progress = true;
            }
            finished &= fiber->state == State::Finished;
        }
        if (finished) return true;
        if (!progress && !release(threads)) return false;
    }
}

bool same_name(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a == ' ') a++;
        while (*b == ' ') b++;
        if (*a != *b) return false;
        if (!*a) return true;
    }
}

} // namespace

namespace emulator {

__attribute__((noinline)) void sync_block(int line) {
    current->state = State::AtBlock;
    current->line = line;
    leave();
}

__attribute__((noinline)) void sync_warp(unsigned mask, Resolve resolve, void *argument) {
    Fiber *warp = fibers + current->thread.x / 32 * 32;
    current->mask = mask;
    current->resolve = resolve;
    current->argument = argument;
    current->state = State::AtWarp;
    void *arguments[32];
    for (unsigned i = 0; i < 32; i++) {
        bool here = warp[i].state == State::AtWarp && warp[i].mask == mask && warp[i].resolve == resolve;
        if (!(mask >> i & 1)) continue;
        if (!here) return leave();
        arguments[i] = warp[i].argument;
    }
    resolve(arguments, mask);
    for (unsigned i = 0; i < 32; i++) {
        if (mask >> i & 1) warp[i].state = State::Ready;
    }
}

} // namespace emulator

// Why the last call of `emulate` did not return 0.
extern "C" const char *emulator_error() { return error; }

// Sets whether a block's threads run from the last to the first. If a kernel's result depends on the order, it
// lacks a barrier.
extern "C" void emulator_falling(int on) { falling = on != 0; }

// Runs a kernel; `args[i]` points to its i-th argument. Returns 0 if it is done, 1 if there is no such
// kernel, and 2 if it cannot be run to its end.
extern "C" int emulate(
    const char *kernel, const unsigned grid[3], unsigned threads, unsigned shared_bytes, void *const *args) {
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> guard(one_at_a_time);
    running = nullptr;
    for (const emulator::Kernel &each : emulator::kernels()) {
        if (same_name(each.name, kernel)) running = each.run;
    }
    if (!running) {
        snprintf(error, sizeof error, "no kernel %s", kernel);
        return 1;
    }
    if (threads == 0 || threads > MOST_THREADS) {
        snprintf(error, sizeof error, "a block of %u threads", threads);
        return 2;
    }
    if (!stacks) {
        void *memory = mmap(
            nullptr, MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            snprintf(error, sizeof error, "no memory for stacks");
            return 2;
        }
        stacks = static_cast<unsigned char *>(memory);
    }
    running_arguments = args;
    emulator::block_size = {threads, 1, 1};
    emulator::grid_size = {grid[0], grid[1], grid[2]};
    std::vector<uint4> memory((shared_bytes + GUARD + 15) / 16);
    emulator::dynamic = reinterpret_cast<unsigned char *>(memory.data());
    for (unsigned i = 0; i < MOST_THREADS; i++) {
        if (fibers[i].state != State::Finished) fibers[i].started = false;
        fibers[i].state = State::Finished;
    }
    for (unsigned z = 0; z < grid[2]; z++) {
        for (unsigned y = 0; y < grid[1]; y++) {
            for (unsigned x = 0; x < grid[0]; x++) {
                emulator::block = {x, y, z};
                memset(__start_kernel_shared, 0xFF, __stop_kernel_shared - __start_kernel_shared);
                memset(emulator::dynamic, 0xFF, shared_bytes);
                memset(emulator::dynamic + shared_bytes, GUARD_BYTE, GUARD);
                if (!run_block(threads)) return 2;
                for (size_t i = 0; i < GUARD; i++) {
                    if (emulator::dynamic[shared_bytes + i] != GUARD_BYTE) {
                        snprintf(
                            error, sizeof error,
                            "block (%u, %u, %u) writes beyond its %u bytes of shared memory", x, y, z,
                            shared_bytes);
                        return 2;
                    }
                }
            }
        }
    }
    return 0;
}
