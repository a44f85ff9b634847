// crypto/testing/compared_passwords.h — what passwords were really held against.
//
// Equal work for who is unknown cannot be tested with a clock on a busy machine, and a counter of
// our own would count calls that do nothing. So the library's function itself is stood in for: it
// notes the text and does its work. Include it in one source of a test program.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace falaj::crypto::testing {

// Every text that a password was held against on this thread, oldest first.
inline std::vector<std::string>& compared_passwords() {
  thread_local std::vector<std::string> texts;
  return texts;
}

}  // namespace falaj::crypto::testing

extern "C" int crypto_pwhash_argon2id_str_verify(const char* text, const char* password,
                                                 unsigned long long size) {
  using Verify = int (*)(const char*, const char*, unsigned long long);
  static const auto real =
      reinterpret_cast<Verify>(dlsym(RTLD_NEXT, "crypto_pwhash_argon2id_str_verify"));
  falaj::crypto::testing::compared_passwords().emplace_back(text);
  return real(text, password, size);
}
