// The k-th call fails: preloaded below a program, it counts the calls that reach the disk, or those
// for memory, and makes one of them fail, or all from there on.
//
//   FALAJ_DISK   the folder that is the disk
//   FALAJ_CALLS  a file of at least sizeof(struct control) bytes, shared with the test, which arms
//                and disarms it while the program runs
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { kWrites = 1, kReads = 2, kMemory = 3 };

// Little endian 64-bit numbers, as the test packs them.
struct control {
  unsigned long kind;   // 0: nothing fails and nothing is counted.
  unsigned long at;     // Which call fails, from 1 on; 0: none, they are only counted.
  unsigned long error;  // What it fails with.
  unsigned long lasts;  // 1: all from there on.
  unsigned long count;
  unsigned long failed;
};

static struct control* control;
static const char* disk;
static size_t disk_length;

__attribute__((constructor)) static void start(void) {
  disk = getenv("FALAJ_DISK");
  const char* path = getenv("FALAJ_CALLS");
  if (disk == NULL || path == NULL) return;
  disk_length = strlen(disk);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) _exit(120);
  void* shared = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (shared == MAP_FAILED) _exit(120);
  control = shared;
}

static int counts(enum kind kind) {
  return control != NULL && __atomic_load_n(&control->kind, __ATOMIC_RELAXED) == kind;
}

static int fails(void) {
  const unsigned long number = __atomic_fetch_add(&control->count, 1, __ATOMIC_SEQ_CST) + 1;
  const unsigned long at = __atomic_load_n(&control->at, __ATOMIC_SEQ_CST);
  if (at == 0 || number < at ||
      (number > at && __atomic_load_n(&control->lasts, __ATOMIC_SEQ_CST) == 0))
    return 0;
  __atomic_fetch_add(&control->failed, 1, __ATOMIC_SEQ_CST);
  errno = (int)__atomic_load_n(&control->error, __ATOMIC_SEQ_CST);
  return 1;
}

static int below_disk(const char* path) {
  return strncmp(path, disk, disk_length) == 0 &&
         (path[disk_length] == '/' || path[disk_length] == '\0');
}

static int fd_fails(enum kind kind, int fd) {
  if (!counts(kind)) return 0;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return below_disk(path) && fails();
}

static int path_fails(int folder, const char* path) {
  if (!counts(kWrites)) return 0;
  if (path[0] == '/') return below_disk(path) && fails();
  return folder != AT_FDCWD && fd_fails(kWrites, folder);
}

#define NEXT(type, name, arguments) \
  static type(*real) arguments;     \
  if (real == NULL) real = (type(*) arguments)dlsym(RTLD_NEXT, #name);

#define ON_FD(kind, type, name, arguments, call)      \
  type name arguments {                               \
    NEXT(type, name, arguments)                       \
    return fd_fails(kind, fd) ? (type)-1 : real call; \
  }
ON_FD(kWrites, ssize_t, write, (int fd, const void* b, size_t n), (fd, b, n))
ON_FD(kWrites, ssize_t, pwrite, (int fd, const void* b, size_t n, off_t at), (fd, b, n, at))
ON_FD(kWrites, ssize_t, pwrite64, (int fd, const void* b, size_t n, off64_t at), (fd, b, n, at))
ON_FD(kWrites, ssize_t, writev, (int fd, const struct iovec* v, int n), (fd, v, n))
ON_FD(kWrites, ssize_t, pwritev, (int fd, const struct iovec* v, int n, off_t at), (fd, v, n, at))
ON_FD(kWrites, ssize_t, pwritev64, (int fd, const struct iovec* v, int n, off64_t at),
      (fd, v, n, at))
ON_FD(kWrites, int, fsync, (int fd), (fd))
ON_FD(kWrites, int, fdatasync, (int fd), (fd))
ON_FD(kWrites, int, ftruncate, (int fd, off_t n), (fd, n))
ON_FD(kWrites, int, ftruncate64, (int fd, off64_t n), (fd, n))
ON_FD(kWrites, int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
ON_FD(kWrites, int, fallocate64, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n))
ON_FD(kReads, ssize_t, pread, (int fd, void* b, size_t n, off_t at), (fd, b, n, at))
ON_FD(kReads, ssize_t, pread64, (int fd, void* b, size_t n, off64_t at), (fd, b, n, at))
ON_FD(kReads, ssize_t, read, (int fd, void* b, size_t n), (fd, b, n))

#define OPEN(name)                                                         \
  int name(const char* path, int flags, ...) {                             \
    NEXT(int, name, (const char*, int, ...))                               \
    va_list more;                                                          \
    va_start(more, flags);                                                 \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                          \
    if ((flags & O_CREAT) != 0 && path_fails(AT_FDCWD, path)) return -1;   \
    return real(path, flags, mode);                                        \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                       \
  int name(int folder, const char* path, int flags, ...) {                 \
    NEXT(int, name, (int, const char*, int, ...))                          \
    va_list more;                                                          \
    va_start(more, flags);                                                 \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                          \
    if ((flags & O_CREAT) != 0 && path_fails(folder, path)) return -1;     \
    return real(folder, path, flags, mode);                                \
  }
OPENAT(openat)
OPENAT(openat64)

int rename(const char* from, const char* to) {
  NEXT(int, rename, (const char*, const char*))
  return path_fails(AT_FDCWD, to) ? -1 : real(from, to);
}
int renameat(int a, const char* from, int b, const char* to) {
  NEXT(int, renameat, (int, const char*, int, const char*))
  return path_fails(b, to) ? -1 : real(a, from, b, to);
}
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  NEXT(int, renameat2, (int, const char*, int, const char*, unsigned))
  return path_fails(b, to) ? -1 : real(a, from, b, to, flags);
}
int mkdir(const char* path, mode_t mode) {
  NEXT(int, mkdir, (const char*, mode_t))
  return path_fails(AT_FDCWD, path) ? -1 : real(path, mode);
}
int mkdirat(int folder, const char* path, mode_t mode) {
  NEXT(int, mkdirat, (int, const char*, mode_t))
  return path_fails(folder, path) ? -1 : real(folder, path, mode);
}
int link(const char* from, const char* to) {
  NEXT(int, link, (const char*, const char*))
  return path_fails(AT_FDCWD, to) ? -1 : real(from, to);
}

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* old, size_t size);
void* malloc(size_t size) { return counts(kMemory) && fails() ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) {
  return counts(kMemory) && fails() ? NULL : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  return counts(kMemory) && fails() ? NULL : __libc_realloc(old, size);
}
