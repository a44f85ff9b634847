// The k-th call fails: preloaded below a program, it counts the calls that reach the disk, those
// for memory, or those for random bytes, and makes one of them fail, or all from there on. Or the
// program kills itself with SIGKILL right before or right after a named point: a call on a path
// below the disk.
//
//   FALAJ_DISK   the folder that is the disk
//   FALAJ_CALLS  a file of at least sizeof(struct control) bytes, shared with the test, which arms
//                and disarms it while the program runs
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { kWrites = 1, kReads = 2, kMemory = 3, kPoints = 4, kRandom = 5 };
enum moment { kNever = 0, kBefore = 1, kAfter = 2 };

// Little endian 64-bit numbers, as the test packs them.
struct control {
  unsigned long kind;   // 0: nothing fails and nothing is counted.
  unsigned long at;     // Which call fails, from 1 on; 0: none, they are only counted.
  unsigned long error;  // What it fails with.
  unsigned long lasts;  // 1: all from there on.
  unsigned long count;
  unsigned long failed;
  // Points: `at` is which call of that name on such a path; 0: none, the names are only listed.
  unsigned long process;  // Whose; 0: of the next that starts. Its children pass no points.
  unsigned long moment;
  char call[16];
  char pattern[512];    // As fnmatch() has it, below the disk; '*' stays in one folder.
  unsigned long named;  // Bytes of `names`: "CALL PATH\n" of each point that was passed.
  char names[(4 << 20) - 600];
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
  unsigned long nobody = 0;
  __atomic_compare_exchange_n(&control->process, &nobody, (unsigned long)getpid(), 0,
                              __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
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

static void die(void) {
  __atomic_fetch_add(&control->failed, 1, __ATOMIC_SEQ_CST);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static void list_name(const char* call, const char* path) {
  char line[4200];
  const int length = snprintf(line, sizeof line, "%s %s\n", call, path);
  if (length < 0 || (size_t)length >= sizeof line) return;
  const unsigned long at = __atomic_fetch_add(&control->named, length, __ATOMIC_SEQ_CST);
  if (at + length <= sizeof control->names) memcpy(control->names + at, line, length);
}

// Does not return when the process is to be killed before the call; kAfter: die() after it.
static enum moment point(const char* call, const char* path) {
  if (!below_disk(path)) return kNever;
  path += disk_length;
  path = path[0] == '\0' ? "." : path + 1;
  const unsigned long at = __atomic_load_n(&control->at, __ATOMIC_SEQ_CST);
  if (at == 0) list_name(call, path);
  if (at == 0 || strcmp(call, control->call) != 0) return kNever;
  if (fnmatch(control->pattern, path, FNM_PATHNAME) != 0) return kNever;
  if (__atomic_fetch_add(&control->count, 1, __ATOMIC_SEQ_CST) + 1 != at) return kNever;
  if (control->moment == kBefore) die();
  return (enum moment)control->moment;
}

static int passes_points(void) {
  return counts(kPoints) && (unsigned long)getpid() == control->process;
}

static enum moment fd_point(const char* call, int fd) {
  if (call == NULL || !passes_points()) return kNever;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return kNever;
  path[length] = '\0';
  return point(call, path);
}

static enum moment path_point(const char* call, int folder, const char* name) {
  if (!passes_points()) return kNever;
  if (name[0] == '/') return point(call, name);
  if (folder == AT_FDCWD) return kNever;
  char link[64], path[8192];
  snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  const ssize_t length = readlink(link, path, 4095);
  if (length < 0) return kNever;
  snprintf(path + length, sizeof path - length, "/%s", name);
  return point(call, path);
}

#define NEXT(type, name, arguments) \
  static type(*real) arguments;     \
  if (real == NULL) real = (type(*) arguments)dlsym(RTLD_NEXT, #name);

// `point` is how the test calls it; NULL: no point.
#define ON_FD(kind, point, type, name, arguments, call) \
  type name arguments {                                 \
    NEXT(type, name, arguments)                         \
    if (fd_fails(kind, fd)) return (type)-1;            \
    const enum moment moment = fd_point(point, fd);     \
    const type result = real call;                      \
    if (moment == kAfter) die();                        \
    return result;                                      \
  }
ON_FD(kWrites, "write", ssize_t, write, (int fd, const void* b, size_t n), (fd, b, n))
ON_FD(kWrites, "write", ssize_t, pwrite, (int fd, const void* b, size_t n, off_t at),
      (fd, b, n, at))
ON_FD(kWrites, "write", ssize_t, pwrite64, (int fd, const void* b, size_t n, off64_t at),
      (fd, b, n, at))
ON_FD(kWrites, "write", ssize_t, writev, (int fd, const struct iovec* v, int n), (fd, v, n))
ON_FD(kWrites, "write", ssize_t, pwritev, (int fd, const struct iovec* v, int n, off_t at),
      (fd, v, n, at))
ON_FD(kWrites, "write", ssize_t, pwritev64, (int fd, const struct iovec* v, int n, off64_t at),
      (fd, v, n, at))
ON_FD(kWrites, "fsync", int, fsync, (int fd), (fd))
ON_FD(kWrites, "fsync", int, fdatasync, (int fd), (fd))
ON_FD(kWrites, "truncate", int, ftruncate, (int fd, off_t n), (fd, n))
ON_FD(kWrites, "truncate", int, ftruncate64, (int fd, off64_t n), (fd, n))
ON_FD(kWrites, "allocate", int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
ON_FD(kWrites, "allocate", int, fallocate64, (int fd, int mode, off64_t at, off64_t n),
      (fd, mode, at, n))
ON_FD(kReads, NULL, ssize_t, pread, (int fd, void* b, size_t n, off_t at), (fd, b, n, at))
ON_FD(kReads, NULL, ssize_t, pread64, (int fd, void* b, size_t n, off64_t at), (fd, b, n, at))
ON_FD(kReads, NULL, ssize_t, read, (int fd, void* b, size_t n), (fd, b, n))

#define OPENED(folder, path, ...)                                        \
  va_list more;                                                          \
  va_start(more, flags);                                                 \
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0; \
  va_end(more);                                                          \
  if ((flags & O_CREAT) == 0) return real(__VA_ARGS__);                  \
  if (path_fails(folder, path)) return -1;                               \
  const enum moment moment = path_point("create", folder, path);         \
  const int result = real(__VA_ARGS__);                                  \
  if (moment == kAfter) die();                                           \
  return result;

#define OPEN(name)                             \
  int name(const char* path, int flags, ...) { \
    NEXT(int, name, (const char*, int, ...))   \
    OPENED(AT_FDCWD, path, path, flags, mode)  \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                       \
  int name(int folder, const char* path, int flags, ...) { \
    NEXT(int, name, (int, const char*, int, ...))          \
    OPENED(folder, path, folder, path, flags, mode)        \
  }
OPENAT(openat)
OPENAT(openat64)

// `folder` and `path` are what the call makes.
#define ON_PATH(point, folder, path, name, arguments, call)     \
  int name arguments {                                          \
    NEXT(int, name, arguments)                                  \
    if (path_fails(folder, path)) return -1;                    \
    const enum moment moment = path_point(point, folder, path); \
    const int result = real call;                               \
    if (moment == kAfter) die();                                \
    return result;                                              \
  }
ON_PATH("rename", AT_FDCWD, to, rename, (const char* from, const char* to), (from, to))
ON_PATH("rename", b, to, renameat, (int a, const char* from, int b, const char* to),
        (a, from, b, to))
ON_PATH("rename", b, to, renameat2,
        (int a, const char* from, int b, const char* to, unsigned flags), (a, from, b, to, flags))
ON_PATH("mkdir", AT_FDCWD, path, mkdir, (const char* path, mode_t mode), (path, mode))
ON_PATH("mkdir", folder, path, mkdirat, (int folder, const char* path, mode_t mode),
        (folder, path, mode))
ON_PATH("link", AT_FDCWD, to, link, (const char* from, const char* to), (from, to))

// Removing is a point; that it fails is not tried.
#define REMOVES(folder, path, name, arguments, call)               \
  int name arguments {                                             \
    NEXT(int, name, arguments)                                     \
    const enum moment moment = path_point("remove", folder, path); \
    const int result = real call;                                  \
    if (moment == kAfter) die();                                   \
    return result;                                                 \
  }
REMOVES(AT_FDCWD, path, unlink, (const char* path), (path))
REMOVES(folder, path, unlinkat, (int folder, const char* path, int flags), (folder, path, flags))
REMOVES(AT_FDCWD, path, rmdir, (const char* path), (path))
REMOVES(AT_FDCWD, path, remove, (const char* path), (path))

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

ssize_t getrandom(void* bytes, size_t size, unsigned flags) {
  NEXT(ssize_t, getrandom, (void*, size_t, unsigned))
  return counts(kRandom) && fails() ? -1 : real(bytes, size, flags);
}
