// A disk that forgets: preloaded below a program, it remembers beside the real files what a power
// cut would leave, which is only what was fsynced.
//
//   FALAJ_DISK    the folder that is the disk
//   FALAJ_SHADOW  an existing folder on the same file system, for what survives:
//                   data/INODE  a file's content at its last fsync
//                   dirs/INODE  a folder's entries at its last fsync, "INODE d|f NAME" a line
//                   pins/INODE  a hard link, so that no number is used twice
//   FALAJ_KILL_AT kills the program at the n-th sync of the disk: before it counts
//   FALAJ_FAIL_AT from the n-th sync of the disk on, each fails with EIO …
//   FALAJ_FAIL_FOR … until so many have failed (default: for ever)
//   FALAJ_FULL    while this file exists, every write to the disk fails with ENOSPC
//
// The real fsync is not called: the machine does not lose power here. The strictest reading of
// POSIX holds: a new file's content and its name in the folder are two things, each synced by
// itself.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char* disk;
static const char* shadow;
static const char* full_flag;
static long kill_at;
static long fail_at;
static long fail_for;
static long syncs;

static ssize_t (*real_write)(int, const void*, size_t);

static void die(const char* what) {
  fprintf(stderr, "drop_writes: %s: %s\n", what, strerror(errno));
  _exit(120);
}

static long number(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : atol(text);
}

static void shadow_path(char* out, size_t size, const char* kind, ino_t inode, const char* suffix) {
  snprintf(out, size, "%s/%s/%lu%s", shadow, kind, (unsigned long)inode, suffix);
}

static void pin(const char* path, ino_t inode) {
  char target[4096];
  shadow_path(target, sizeof(target), "pins", inode, "");
  // The file may be gone again by now; then nothing refers to its number.
  if (linkat(AT_FDCWD, path, AT_FDCWD, target, 0) != 0 && errno != EEXIST && errno != ENOENT) {
    die("pin");
  }
}

// The whole content as of now; appears at once, so that a kill in between leaves the older one.
static void keep_file(const char* readable, ino_t inode) {
  char staged[4096], target[4096], buffer[65536];
  shadow_path(staged, sizeof(staged), "data", inode, ".new");
  shadow_path(target, sizeof(target), "data", inode, "");
  const int in = open(readable, O_RDONLY | O_CLOEXEC);
  const int out = open(staged, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (in < 0 || out < 0) die("keep file");
  ssize_t got = 0;
  while ((got = read(in, buffer, sizeof(buffer))) > 0) {
    if (real_write(out, buffer, (size_t)got) != got) die("copy");
  }
  close(in);
  close(out);
  if (got < 0 || rename(staged, target) != 0) die("keep file");
}

static void keep_folder(const char* path, ino_t inode) {
  char staged[4096], target[4096], child[4096];
  shadow_path(staged, sizeof(staged), "dirs", inode, ".new");
  shadow_path(target, sizeof(target), "dirs", inode, "");
  DIR* entries = opendir(path);
  FILE* out = fopen(staged, "we");
  if (entries == NULL || out == NULL) die("keep folder");
  const struct dirent* entry = NULL;
  while ((entry = readdir(entries)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    const int is_folder = entry->d_type == DT_DIR;
    snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
    if (!is_folder) pin(child, entry->d_ino);
    fprintf(out, "%lu %c %s\n", (unsigned long)entry->d_ino, is_folder ? 'd' : 'f', entry->d_name);
  }
  closedir(entries);
  if (fclose(out) != 0 || rename(staged, target) != 0) die("keep folder");
}

static int keep_existing(const char* path, const struct stat* info, int kind, struct FTW* at) {
  (void)kind;
  (void)at;
  if (S_ISDIR(info->st_mode)) keep_folder(path, info->st_ino);
  if (S_ISREG(info->st_mode)) keep_file(path, info->st_ino);
  return 0;
}

__attribute__((constructor)) static void start(void) {
  real_write = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  disk = getenv("FALAJ_DISK");
  shadow = getenv("FALAJ_SHADOW");
  full_flag = getenv("FALAJ_FULL");
  kill_at = number("FALAJ_KILL_AT");
  fail_at = number("FALAJ_FAIL_AT");
  fail_for = number("FALAJ_FAIL_FOR");
  if (disk == NULL) return;
  if (shadow == NULL) return;
  const char* kinds[] = {"data", "dirs", "pins"};
  for (int i = 0; i < 3; ++i) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", shadow, kinds[i]);
    if (mkdir(path, 0700) != 0) die("make shadow");
  }
  // What is there at the start has been there since before the power came on.
  if (nftw(disk, keep_existing, 16, FTW_PHYS) != 0) die("first look");
}

static int on_disk(int fd, char* path, size_t size) {
  if (disk == NULL) return 0;
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, size - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  const size_t prefix = strlen(disk);
  return strncmp(path, disk, prefix) == 0 && (path[prefix] == '/' || path[prefix] == '\0');
}

static int sync_to_shadow(int fd, const char* path) {
  ++syncs;
  if (kill_at > 0 && syncs == kill_at) {
    kill(getpid(), SIGKILL);
    for (;;) pause();  // Nothing after this point may be acknowledged.
  }
  if (fail_at > 0 && syncs >= fail_at && (fail_for == 0 || syncs < fail_at + fail_for)) {
    errno = EIO;
    return -1;
  }
  struct stat info;
  if (shadow == NULL || fstat(fd, &info) != 0) return 0;
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  if (S_ISDIR(info.st_mode)) {
    keep_folder(path, info.st_ino);
  } else if (S_ISREG(info.st_mode)) {
    pin(path, info.st_ino);
    keep_file(link, info.st_ino);
  }
  return 0;
}

static int synced(int fd, const char* real_name) {
  char path[4096];
  if (!on_disk(fd, path, sizeof(path))) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, real_name);
    return real(fd);
  }
  pthread_mutex_lock(&lock);
  const int result = sync_to_shadow(fd, path);
  pthread_mutex_unlock(&lock);
  return result;
}

int fsync(int fd) { return synced(fd, "fsync"); }
int fdatasync(int fd) { return synced(fd, "fdatasync"); }

static int is_full(int fd) {
  char path[4096];
  if (full_flag == NULL || access(full_flag, F_OK) != 0) return 0;
  if (!on_disk(fd, path, sizeof(path))) return 0;
  errno = ENOSPC;
  return 1;
}

ssize_t write(int fd, const void* bytes, size_t size) {
  return is_full(fd) ? -1 : real_write(fd, bytes, size);
}

// The libraries below call one or the other name; both mean 64-bit offsets here.
#define FORWARD(type, name, arguments, call)                             \
  type name arguments {                                                  \
    static type(*real) arguments;                                        \
    if (real == NULL) real = (type(*) arguments)dlsym(RTLD_NEXT, #name); \
    return is_full(fd) ? (type)-1 : real call;                           \
  }
FORWARD(ssize_t, pwrite, (int fd, const void* b, size_t n, off_t at), (fd, b, n, at))
FORWARD(ssize_t, pwrite64, (int fd, const void* b, size_t n, off64_t at), (fd, b, n, at))
FORWARD(ssize_t, writev, (int fd, const struct iovec* v, int n), (fd, v, n))
FORWARD(ssize_t, pwritev, (int fd, const struct iovec* v, int n, off_t at), (fd, v, n, at))
FORWARD(ssize_t, pwritev64, (int fd, const struct iovec* v, int n, off64_t at), (fd, v, n, at))
FORWARD(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
FORWARD(int, fallocate64, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n))
