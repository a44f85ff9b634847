// What a command inside an image must not get: namespaces of its own, and sockets that its network
// does not hold. One line a try. Built by test_images.py.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char* name, long done) {
  printf("%s %s\n", name, done >= 0 ? "DONE" : "refused");
}

int main(void) {
  const long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  say("namespace", child);
  say("unshare", unshare(CLONE_NEWUSER));
  say("unix", socket(AF_UNIX, SOCK_STREAM, 0));
  say("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
  say("packet", socket(AF_PACKET, SOCK_RAW, 0));
  say("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
  say("internet", socket(AF_INET, SOCK_STREAM, 0));
  return 0;
}
