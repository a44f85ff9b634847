// crypto/internal/openssl_handles.h — OpenSSL's objects as values that free themselves.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>

#include <memory>

namespace falaj::crypto {

template <auto kFree>
struct OpensslFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
template <typename T, auto kFree>
using OpensslHandle = std::unique_ptr<T, OpensslFree<kFree>>;

using Bio = OpensslHandle<BIO, BIO_free_all>;
using Key = OpensslHandle<EVP_PKEY, EVP_PKEY_free>;

// No prompt: an encrypted key is refused instead of waiting at a terminal.
inline int no_passphrase(char*, int, int, void*) { return -1; }

}  // namespace falaj::crypto
