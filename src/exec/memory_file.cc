#include "exec/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace falaj::exec {
namespace {

Error no_memory_file() {
  return Error(Code::kResourceExhausted,
               std::string("cannot make or fill a memory file for a child process: ") +
                   std::strerror(errno));
}

}  // namespace

Result<Descriptor> make_memory_file(const char* name) {
  Descriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return no_memory_file();
  return file;
}

Result<Descriptor> make_sealed_memory_file(const char* name, std::string_view bytes) {
  Descriptor file = FALAJ_TRY(make_memory_file(name));
  FALAJ_TRY(write_memory_file(file.get(), bytes));
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return no_memory_file();
  return file;
}

Status write_memory_file(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return no_memory_file();
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

}  // namespace falaj::exec
