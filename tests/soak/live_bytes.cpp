// Preloaded before the C library's allocator: counts the bytes that a process has allocated and not freed, in the file that $RAPID_LIVE_BYTES names. What the
// process starts is not counted.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cerrno>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

using Count = std::atomic<long>;
static Count before_the_file;
static std::atomic<Count*> count{&before_the_file};

static long size(void* p) { return p ? static_cast<long>(malloc_usable_size(p)) : 0; }

static void* counted(void* p) {
  count.load()->fetch_add(size(p));
  return p;
}

__attribute__((constructor)) static void open_the_file() {
  const char* path = std::getenv("RAPID_LIVE_BYTES");
  int file = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
  if (file < 0 || ftruncate(file, sizeof(Count)) != 0) _exit(99);
  void* page = mmap(nullptr, sizeof(Count), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) _exit(99);
  close(file);
  unsetenv("LD_PRELOAD");
  unsetenv("RAPID_LIVE_BYTES");
  auto* shared = static_cast<Count*>(page);
  count.store(shared);
  shared->fetch_add(before_the_file.load());
}

extern "C" {
void* malloc(std::size_t bytes) { return counted(__libc_malloc(bytes)); }

void* calloc(std::size_t number, std::size_t bytes) { return counted(__libc_calloc(number, bytes)); }

void* realloc(void* old, std::size_t bytes) {
  const long had = size(old);
  void* p = __libc_realloc(old, bytes);
  if (p || bytes == 0) count.load()->fetch_add(size(p) - had);
  return p;
}

void* memalign(std::size_t alignment, std::size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }

void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** p, std::size_t alignment, std::size_t bytes) {
  *p = memalign(alignment, bytes);
  return *p ? 0 : ENOMEM;
}

void free(void* p) {
  count.load()->fetch_sub(size(p));
  __libc_free(p);
}
}
