// A redis-server of its own for a test: on ports of 127.0.0.1 that were free, plain and TLS, set up
// as storage/redis/redis.h asks for. Dies with the test's process.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "net/testing/certificate.h"
#include "storage/testing/temp_folder.h"

namespace falaj::storage {

class RedisServer {
 public:
  // FALAJ_REDIS_SERVER comes from CMakeLists.txt.
  RedisServer() {
    const net::TlsIdentity identity = authority_.issue({});
    std::ofstream(folder_ / "cert.pem") << identity.chain_pem;
    std::ofstream(folder_ / "key.pem") << identity.key_pem;
    const net::TlsIdentity client = authority_.issue({});
    std::ofstream(folder_ / "client.pem") << client.chain_pem;
    std::ofstream(folder_ / "client.key") << client.key_pem;
    authority_.file_in(folder_.path());
    start();
  }
  ~RedisServer() { kill(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  // Again after kill(), on the same ports with the same files.
  void start() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      if (port_ == 0 || attempt > 0) {
        port_ = free_port();
        tls_port_ = free_port();
      }
      if (launch()) return;
      kill();
    }
    ADD_FAILURE() << "redis-server does not start: ./dev setup installs it";
  }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  std::string tls_url() const { return "rediss://127.0.0.1:" + std::to_string(tls_port_); }
  const TempFolder& folder() const { return folder_; }  // ca.pem, client.pem and client.key too.

 private:
  static int free_port() {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
    ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
    ::close(socket);
    return ntohs(address.sin_port);
  }

  std::vector<std::string> words() const {
    return {FALAJ_REDIS_SERVER,
            "--port",
            std::to_string(port_),
            "--tls-port",
            std::to_string(tls_port_),
            "--bind",
            "127.0.0.1",
            "--dir",
            folder_.path(),
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--save",
            "",
            "--loglevel",
            "notice",
            "--tls-cert-file",
            folder_ / "cert.pem",
            "--tls-key-file",
            folder_ / "key.pem",
            "--tls-ca-cert-file",
            folder_ / "ca.pem",
            "--tls-auth-clients",
            "optional",
            "--rdbcompression",
            "no"};
  }

  // True once it says that it is ready; false when it ended.
  bool launch() {
    int log[2];
    EXPECT_EQ(::pipe(log), 0);
    std::vector<std::string> all = words();
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(log[1], 1);
      ::close(log[0]);
      ::close(log[1]);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(log[1]);
    std::string said;
    char piece[4096];
    ssize_t got = 0;
    while (said.find("Ready to accept connections") == std::string::npos &&
           (got = ::read(log[0], piece, sizeof piece)) > 0) {
      said.append(piece, static_cast<std::size_t>(got));
    }
    log_ = Descriptor(log[0]);  // Kept open: it writes there.
    return got > 0;
  }

  TempFolder folder_;
  net::testing::TestAuthority authority_;
  int port_ = 0;
  int tls_port_ = 0;
  pid_t pid_ = -1;
  Descriptor log_;
};

}  // namespace falaj::storage
