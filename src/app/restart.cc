#include "app/restart.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "exec/child.h"

namespace falaj::app {
namespace {

constexpr const char* kVariable = "FALAJ_INHERITED_SOCKETS";
constexpr Duration kCheckLimit = Duration::seconds(10);
constexpr std::size_t kSaidMax = 500;

std::string_view take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

template <class Number>
bool parse_whole(std::string_view text, Number& into) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), into);
  return failure == std::errc() && end == text.data() + text.size();
}

// An open descriptor over the standard ones, from now on closed in every child.
Descriptor own(int number) {
  if (number <= STDERR_FILENO || ::fcntl(number, F_SETFD, FD_CLOEXEC) != 0) return Descriptor();
  return Descriptor(number);
}

std::vector<std::pair<std::string, std::string>> environment_pairs() {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return pairs;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

Error refused(const std::string& program, const std::string& why) {
  return Error(Code::kFailedPrecondition, program + " would not start: " + why);
}

}  // namespace

std::string to_text(std::int64_t pid, const ListenerNumbers& numbers) {
  return std::to_string(pid) + " http=" + std::to_string(numbers.http) +
         " grpc=" + std::to_string(numbers.grpc);
}

std::optional<ListenerNumbers> parse_listeners(std::string_view text, std::int64_t pid) {
  std::int64_t whose = 0;
  if (!parse_whole(take_word(text), whose) || whose != pid) return std::nullopt;
  ListenerNumbers numbers;
  for (const auto& [name, number] :
       {std::pair("http=", &numbers.http), std::pair("grpc=", &numbers.grpc)}) {
    std::string_view word = take_word(text);
    if (!word.starts_with(name)) return std::nullopt;
    word.remove_prefix(std::strlen(name));
    if (!parse_whole(word, *number)) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return numbers;
}

Listeners take_listeners() {
  Listeners listeners;
  const char* text = std::getenv(kVariable);
  if (text == nullptr) return listeners;
  const std::optional<ListenerNumbers> left = parse_listeners(text, ::getpid());
  ::unsetenv(kVariable);
  if (!left.has_value()) return listeners;
  listeners.http = own(left->http);
  if (left->grpc != left->http) listeners.grpc = own(left->grpc);
  return listeners;
}

Result<Successor> successor() {
  Successor next;
  // What was asked to be run, not what it led to: an upgrade may turn a link to another file.
  const auto* asked = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string words{std::istreambuf_iterator<char>(file), {}};
  if (asked == nullptr || words.empty()) {
    return Error(Code::kUnavailable, "this system does not tell how the program was started");
  }
  std::error_code failed;
  next.program = std::filesystem::absolute(asked, failed).string();
  if (failed) return Error(Code::kUnavailable, "the program's folder: " + failed.message());
  for (std::size_t at = 0; at < words.size(); at += next.words.back().size() + 1) {
    next.words.emplace_back(words.c_str() + at);
  }
  return next;
}

Result<std::size_t> schema_of(std::string_view output) {
  constexpr std::string_view kMark = "\nschema ";
  const std::string text = "\n" + std::string(output);
  const std::size_t at = text.rfind(kMark);
  std::size_t schema = 0;
  if (at != std::string::npos) {
    const std::size_t begin = at + kMark.size();
    const std::string_view digits =
        std::string_view(text).substr(begin, text.find('\n', begin) - begin);
    if (parse_whole(digits, schema)) return schema;
  }
  return Error(Code::kFailedPrecondition,
               "it says '" + std::string(output.substr(0, kSaidMax)) + "'");
}

Status check(const Successor& next, std::size_t schema) {
  exec::ChildSpec spec;
  spec.argv = next.words;
  spec.argv.front() = next.program;
  spec.argv.emplace_back("--check");
  spec.env = environment_pairs();
  spec.work_dir = std::filesystem::current_path().string();
  spec.channel_fd = -1;
  spec.limits.run_time_max = kCheckLimit;
  Result<std::unique_ptr<exec::Child>> child = exec::Child::start(std::move(spec));
  if (!child.ok()) return refused(next.program, child.error().message);
  const exec::ChildExit end = (*child)->wait();
  if (end.reason != exec::ExitReason::kExited || end.code != 0) {
    return refused(next.program, end.output.substr(0, kSaidMax));
  }
  const Result<std::size_t> known = schema_of(end.output);
  if (!known.ok()) return refused(next.program, known.error().message);
  if (*known >= schema) return {};
  return refused(next.program, "it is older and knows " + std::to_string(*known) + " of the " +
                                   std::to_string(schema) + " changes of the metadata");
}

Error become(const Successor& next, const Listeners& listeners) {
  std::vector<std::string> environment;
  for (const auto& [name, value] : environment_pairs()) environment.push_back(name + "=" + value);
  environment.push_back(std::string(kVariable) + "=" +
                        to_text(::getpid(), {listeners.http.get(), listeners.grpc.get()}));
  std::vector<std::string> words = next.words;
  // Whatever a library opened without saying so stays behind. Kernels before 5.11 do not know it.
  constexpr unsigned kCloseOnExec = 1U << 2;
  ::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, kCloseOnExec);
  const int kept[] = {listeners.http.get(), listeners.grpc.get()};
  for (const int each : kept) {
    if (each >= 0) ::fcntl(each, F_SETFD, 0);
  }
  ::execve(next.program.c_str(), pointers(words).data(), pointers(environment).data());
  const int code = errno;
  for (const int each : kept) {
    if (each >= 0) ::fcntl(each, F_SETFD, FD_CLOEXEC);
  }
  return Error(Code::kUnavailable, "cannot run " + next.program + ": " + std::strerror(code));
}

}  // namespace falaj::app
