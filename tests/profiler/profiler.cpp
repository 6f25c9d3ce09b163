// A profiler of the simplest kind: writes the ranges that NVTX tells it of to the file that $RAPID_RANGES names, each on a line, indented by how deep it lies.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// NVTX's numbers of what is used here, as its headers (nvtxTypes.h) have them.
enum { CALLBACKS = 1, CORE = 1, RANGE_PUSH = 9, RANGE_POP = 11 };

using Function = void (*)();
struct Callbacks {
  std::size_t size;
  int (*functions)(int module, Function*** table, unsigned* size);
};

static std::FILE* out;
static thread_local int depth;

static int push(const char* name) {
  std::fprintf(out, "%*s%s\n", 2 * depth, "", name);
  std::fflush(out);
  return depth++;
}

static int pop() { return --depth; }

extern "C" int InitializeInjectionNvtx2(const void* (*exported)(std::uint32_t)) {
  const auto* callbacks = static_cast<const Callbacks*>(exported(CALLBACKS));
  Function** table = nullptr;
  unsigned size = 0;
  const char* path = std::getenv("RAPID_RANGES");
  out = path ? std::fopen(path, "w") : nullptr;
  if (!out || !callbacks || !callbacks->functions(CORE, &table, &size) || size <= RANGE_POP) return 0;
  *table[RANGE_PUSH] = reinterpret_cast<Function>(push);
  *table[RANGE_POP] = reinterpret_cast<Function>(pop);
  return 1;
}
