// A training library that attacks: the job's process loads it as it would load LightGBM, and its
// constructor tries what no job may do, one line of output a try. Built by test_jobs.py with
// PORT (of the server), DATA (its folder), CANARY (a file of this machine) and one of TRIES, BOMB,
// GHOST, HOG.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char* name, int done) {
  printf("try %s %s\n", name, done ? "DONE" : "refused");
  fflush(stdout);
}

static int opened(const char* path, int flags) {
  const int fd = open(path, flags, 0600);
  if (fd < 0) return 0;
  char byte;
  const int useful = (flags & O_ACCMODE) != O_RDONLY || read(fd, &byte, 1) >= 0;
  close(fd);
  return useful;
}

static int listed(const char* path) {
  DIR* folder = opendir(path);
  if (folder == NULL) return 0;
  closedir(folder);
  return 1;
}

// To this machine it waits for the answer; outside, being on the way is bad enough.
static int connected(const char* address, int port) {
  const int waits = strncmp(address, "127.", 4) == 0;
  const int fd = socket(AF_INET, waits ? SOCK_STREAM : SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (fd < 0) return 0;
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  inet_pton(AF_INET, address, &to.sin_addr);
  const int done = connect(fd, (struct sockaddr*)&to, sizeof to) == 0 || errno == EINPROGRESS;
  close(fd);
  return done;
}

static int sent(const char* address) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (fd < 0) return 0;
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
  inet_pton(AF_INET, address, &to.sin_addr);
  const int done = sendto(fd, "x", 1, 0, (struct sockaddr*)&to, sizeof to) == 1;
  close(fd);
  return done;
}

static int has_socket(int family, int type) {
  const int fd = socket(family, type, 0);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static int other_interfaces(void) {
  struct if_nameindex* all = if_nameindex();
  int found = 0;
  for (struct if_nameindex* i = all; i != NULL && i->if_index != 0; ++i) {
    found += strcmp(i->if_name, "lo") != 0;
  }
  if (all != NULL) if_freenameindex(all);
  return found > 0;
}

static int of_parent(const char* what, int flags) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", getppid(), what);
  return opened(path, flags);
}

static int parent_memory(void) {
  char byte;
  struct iovec here = {&byte, 1}, there = {(void*)say, 1};
  return process_vm_readv(getppid(), &here, 1, &there, 1, 0) == 1;
}

// Files of the server that the process holds open: its own input, to be read only.
static int foreign_descriptors(void) {
  int found = 0;
  for (int fd = 0; fd < 256; ++fd) {
    char link[64], target[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0) continue;
    target[length] = '\0';
    if (strstr(target, DATA) == NULL || strstr(target, "/jobs/") != NULL) continue;
    found += strstr(target, "/blobs/") == NULL || (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
  }
  return found > 0;
}

static int has_capabilities(void) {
  char text[4096] = "";
  const int fd = open("/proc/self/status", O_RDONLY);
  if (fd < 0 || read(fd, text, sizeof text - 1) < 0) return 1;
  close(fd);
  const char* line = strstr(text, "CapEff:");
  return line == NULL || strtoull(line + 7, NULL, 16) != 0;
}

static void try_files(void) {
  say("read_passwords", opened("/etc/shadow", O_RDONLY));
  say("read_a_host_file", opened(CANARY, O_RDONLY));
  say("read_the_database", opened(DATA "/metadata.db", O_RDONLY));
  say("read_the_keys", opened(DATA "/keys.db", O_RDONLY));
  say("read_the_sealed_root", opened(DATA "/keys.sealed", O_RDONLY));
  say("read_the_log", opened(DATA ".log", O_RDONLY));
  say("list_the_data_folder", listed(DATA));
  say("list_the_blobs", listed(DATA "/blobs"));
  say("list_home", listed("/root") || listed("/home"));
  say("write_the_database", opened(DATA "/metadata.db", O_WRONLY));
  say("write_a_host_file", opened(CANARY, O_WRONLY));
  say("fill_tmp", opened("/tmp/falaj-escaped", O_WRONLY | O_CREAT));
  say("fill_var_tmp", opened("/var/tmp/falaj-escaped", O_WRONLY | O_CREAT));
  say("fill_shared_memory", opened("/dev/shm/falaj-escaped", O_WRONLY | O_CREAT));
  say("write_etc", opened("/etc/falaj-escaped", O_WRONLY | O_CREAT));
  say("write_above_its_folder", opened("../falaj-escaped", O_WRONLY | O_CREAT));
  say("make_a_device", mknod("/tmp/falaj-device", S_IFCHR | 0600, 0x101) == 0);
  say("read_kernel_memory", opened("/dev/mem", O_RDONLY) || opened("/dev/kmsg", O_RDONLY));
  say("hold_foreign_files", foreign_descriptors());
}

static void try_network(void) {
  say("reach_the_server", connected("127.0.0.1", PORT));
  say("reach_the_outside", connected("192.0.2.1", 80));
  say("reach_the_metadata_service", connected("169.254.169.254", 80));
  say("ask_a_name_server", sent("192.0.2.1"));
  say("open_a_raw_socket", has_socket(AF_INET, SOCK_RAW));
  say("open_a_packet_socket", has_socket(AF_PACKET, SOCK_RAW));
  say("see_an_interface", other_interfaces());
}

static void try_others(void) {
  say("read_its_parents_memory", of_parent("mem", O_RDONLY) || parent_memory());
  say("read_its_parents_environment", of_parent("environ", O_RDONLY));
  say("trace_its_parent", ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0);
  say("be_traced", ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
  say("signal_its_parent", kill(getppid(), 0) == 0);
  say("take_a_descriptor", syscall(SYS_pidfd_getfd, 0, 0, 0) >= 0 || errno != EPERM);
  say("know_the_servers_secrets", getenv("SERVERS_OWN_SECRET") != NULL);
}

static void try_kernel(void) {
  say("mount", mount("none", "/mnt", "tmpfs", 0, "") == 0);
  say("change_root", chroot("/") == 0);
  say("make_a_user_namespace", unshare(CLONE_NEWUSER) == 0);
  say("make_a_mount_namespace", unshare(CLONE_NEWNS) == 0);
  say("enter_a_namespace", setns(0, 0) == 0 || errno != EPERM);
  say("load_a_filter_program", syscall(SYS_bpf, 0, NULL, 0) >= 0 || errno != EPERM);
  say("count_events", syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0) >= 0 || errno != EPERM);
  say("handle_faults", syscall(SYS_userfaultfd, 0) >= 0 || errno != EPERM);
  say("use_the_keyring", syscall(SYS_keyctl, 0, 0, 0, 0, 0) >= 0 || errno != EPERM);
  say("load_a_module", syscall(SYS_init_module, NULL, 0, "") == 0 || errno != EPERM);
  say("open_a_ring", syscall(SYS_io_uring_setup, 1, NULL) >= 0 || errno != EPERM);
  say("open_by_handle", syscall(SYS_open_by_handle_at, 0, NULL, 0) >= 0 || errno != EPERM);
  const struct timespec now = {0, 0};
  say("set_the_clock", syscall(SYS_clock_settime, CLOCK_REALTIME, &now) == 0);
  say("rename_the_host", sethostname("evil", 4) == 0);
  say("reboot", syscall(SYS_reboot, 0, 0, 0, 0) == 0 || errno != EPERM);
  say("gain_privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
  say("keep_capabilities", has_capabilities());
  const struct rlimit more = {RLIM_INFINITY, RLIM_INFINITY};
  say("leave_a_core", setrlimit(RLIMIT_CORE, &more) == 0);
}

static void bomb(void) {
  int made = 0;
  while (made < 4000) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    if (child < 0) break;
    ++made;
  }
  printf("forked %d\n", made);
  fflush(stdout);
  for (;;) pause();
}

// Leaves its group and its parent, and will not be asked to end.
static void ghost(void) {
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    prctl(PR_SET_NAME, GHOST_NAME, 0, 0, 0);
    printf("haunting\n");
    fflush(stdout);
    for (;;) pause();
  }
  signal(SIGTERM, SIG_IGN);
  for (;;) pause();
}

static void hog(void) {
  for (;;) {
    char* more = malloc(16 << 20);
    if (more != NULL) memset(more, 1, 16 << 20);
  }
}

__attribute__((constructor)) static void attack(void) {
#if defined(TRIES)
  try_files();
  try_network();
  try_others();
  try_kernel();
  printf("all tried\n");
  fflush(stdout);
  _exit(1);
#elif defined(BOMB)
  bomb();
#elif defined(GHOST)
  ghost();
#else
  hog();
#endif
  (void)try_files, (void)try_network, (void)try_others, (void)try_kernel;
  (void)bomb, (void)ghost, (void)hog;
}
