#include "net/dialer.h"

#include <utility>

#include "net/internal/dial.h"
#include "net/tls/tls.h"

namespace falaj::net {
namespace {

class DialledBytes final : public ByteConnection {
 public:
  explicit DialledBytes(std::unique_ptr<Dialled> dialled) : dialled_(std::move(dialled)) {}
  Status write(std::string_view bytes, std::int64_t deadline) override {
    return dialled_->write(bytes, {}, deadline);
  }
  Result<std::size_t> read(std::span<char> into, std::int64_t deadline) override {
    return dialled_->read(into, deadline);
  }
  bool is_stale() const override { return dialled_->is_stale(); }

 private:
  const std::unique_ptr<Dialled> dialled_;
};

class SocketDialer final : public Dialer {
 public:
  SocketDialer(Url url, TlsContext tls, Duration limit)
      : url_(std::move(url)), tls_(std::move(tls)), limit_(limit) {}

  Result<std::unique_ptr<ByteConnection>> dial() const override {
    auto dialled = FALAJ_TRY(Dialled::open(url_, tls_.get(), limit_, Reach::kAnywhere));
    return std::unique_ptr<ByteConnection>(std::make_unique<DialledBytes>(std::move(dialled)));
  }

 private:
  const Url url_;
  const TlsContext tls_;
  const Duration limit_;
};

}  // namespace

Result<std::unique_ptr<Dialer>> Dialer::create(const DialerOptions& options) {
  Url url;
  url.host = options.host;
  url.port = options.port;
  const bool brackets = options.host.find(':') != std::string::npos;
  url.authority =
      (brackets ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
  TlsContext tls;
  if (options.tls) tls = FALAJ_TRY(make_client_tls(*options.tls));
  return std::unique_ptr<Dialer>(
      std::make_unique<SocketDialer>(std::move(url), std::move(tls), options.connect_timeout));
}

}  // namespace falaj::net
