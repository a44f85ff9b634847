#include "jobs/oci/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

namespace falaj::jobs::oci {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::int64_t kSizeMax = std::int64_t{1} << 40;
constexpr std::int64_t kExtendedMax = 1 << 20;

using Block = std::array<char, kBlock>;

Error refused(const std::string& what) {
  return Error(ErrorId::kImageRefused, "a layer of the image is no sound archive: " + what);
}

std::string_view field(const Block& block, std::size_t at, std::size_t size) {
  const std::string_view text(block.data() + at, size);
  return text.substr(0, std::min(text.find('\0'), size));
}

// Octal digits between blanks, or a number of more bytes behind a set first bit.
Result<std::int64_t> number(const Block& block, std::size_t at, std::size_t size) {
  if ((static_cast<unsigned char>(block[at]) & 0x80) != 0) {
    std::uint64_t value = static_cast<unsigned char>(block[at]) & 0x7f;
    for (std::size_t i = 1; i < size; ++i) {
      if (value >> 54 != 0) return refused("a number is too large");
      value = value << 8 | static_cast<unsigned char>(block[at + i]);
    }
    return static_cast<std::int64_t>(value);
  }
  std::string_view text = field(block, at, size);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find(' '));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() && !text.empty()) return refused("a number cannot be read");
  if (end != text.data() + text.size() || value < 0) return refused("a number cannot be read");
  return value;
}

bool is_empty(const Block& block) {
  return std::all_of(block.begin(), block.end(), [](char c) { return c == 0; });
}

bool sum_holds(const Block& block, std::int64_t expected) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return sum == expected;
}

std::optional<TarKind> kind_of(char type) {
  switch (type) {
    case '\0':
    case '0':
    case '7':
      return TarKind::kFile;
    case '1':
      return TarKind::kHardLink;
    case '2':
      return TarKind::kSymlink;
    case '3':
    case '4':
    case '6':
      return TarKind::kOther;
    case '5':
      return TarKind::kFolder;
    default:
      return std::nullopt;
  }
}

std::string short_name(const Block& block) {
  std::string name(field(block, 0, 100));
  const bool ustar = std::memcmp(block.data() + 257, "ustar\0", 6) == 0;
  const std::string prefix(ustar ? field(block, 345, 155) : std::string_view());
  return prefix.empty() ? name : prefix + "/" + name;
}

}  // namespace

Status TarReader::fill(char* to, std::size_t count) {
  while (count > 0) {
    const std::size_t got = FALAJ_TRY(source_(to, count));
    if (got == 0) return refused("it ends in the middle");
    to += got;
    count -= got;
  }
  return {};
}

Status TarReader::skip_rest() {
  std::array<char, 16 * 1024> bytes;
  left_ += std::exchange(padding_, 0);
  while (left_ > 0) {
    const auto part =
        static_cast<std::size_t>(std::min(left_, static_cast<std::int64_t>(bytes.size())));
    FALAJ_TRY(fill(bytes.data(), part));
    left_ -= static_cast<std::int64_t>(part);
  }
  return {};
}

Result<std::size_t> TarReader::read(char* to, std::size_t count) {
  const auto part = static_cast<std::size_t>(std::min(left_, static_cast<std::int64_t>(count)));
  if (part == 0) return std::size_t{0};
  const std::size_t got = FALAJ_TRY(source_(to, part));
  if (got == 0) return refused("it ends in the middle of a file");
  left_ -= static_cast<std::int64_t>(got);
  return got;
}

Result<std::string> TarReader::text(std::int64_t size, const char* what) {
  if (size > kExtendedMax) return refused(std::string(what) + " is too long");
  std::string out(static_cast<std::size_t>(size), '\0');
  FALAJ_TRY(fill(out.data(), out.size()));
  left_ = 0;
  return out;
}

// "27 path=usr/share/a/long/name\n", each with its own length in front.
Status TarReader::take_pax(std::string_view records) {
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, error] =
        std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (error != std::errc() || length > records.size() || length < digits + 3 ||
        records[digits] != ' ' || records[length - 1] != '\n') {
      return refused("an extended header cannot be read");
    }
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    records.remove_prefix(length);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return refused("an extended header has no value");
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") name_ = value;
    if (key == "linkpath") link_ = value;
    if (key.starts_with("GNU.sparse")) return refused("a file with holes is not supported");
    if (key != "size") continue;
    std::int64_t size = 0;
    const auto [last, bad] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (bad != std::errc() || last != value.data() + value.size() || size < 0 || size > kSizeMax) {
      return refused("an extended header has a bad size");
    }
    size_ = size;
  }
  return {};
}

Result<std::optional<TarEntry>> TarReader::next() {
  while (true) {
    FALAJ_TRY(skip_rest());
    Block block;
    const std::size_t first = FALAJ_TRY(source_(block.data(), kBlock));
    if (first == 0) return std::optional<TarEntry>();
    FALAJ_TRY(fill(block.data() + first, kBlock - first));
    if (is_empty(block)) return std::optional<TarEntry>();
    const std::int64_t sum = FALAJ_TRY(number(block, 148, 8));
    if (!sum_holds(block, sum)) return refused("a header's sum is wrong");
    const char type = block[156];
    std::int64_t size = FALAJ_TRY(number(block, 124, 12));
    const bool extended = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (!extended && size_) size = *size_;
    if (size > kSizeMax) return refused("a file is too long");
    const std::optional<TarKind> kind = kind_of(type);
    if (!extended && !kind) {
      return refused(std::string("an entry of type '") + type + "' is not supported");
    }
    // Links and folders have no content, whatever their size says.
    const bool content = extended || kind == TarKind::kFile;
    left_ = content ? size : 0;
    padding_ = content ? (kBlock - size % static_cast<std::int64_t>(kBlock)) % kBlock : 0;
    if (extended) {
      const std::string said = FALAJ_TRY(text(size, "an extended header"));
      if (type == 'x') FALAJ_TRY(take_pax(said));
      if (type == 'L') name_ = said.substr(0, said.find('\0'));
      if (type == 'K') link_ = said.substr(0, said.find('\0'));
      continue;
    }
    TarEntry entry;
    entry.kind = *kind;
    entry.name = name_.empty() ? short_name(block) : std::exchange(name_, "");
    entry.link = link_.empty() ? std::string(field(block, 157, 100)) : std::exchange(link_, "");
    entry.mode = static_cast<std::uint32_t>(FALAJ_TRY(number(block, 100, 8)) & 07777);
    entry.size = left_;
    name_.clear();
    link_.clear();
    size_.reset();
    // An old way to say that it is a folder.
    if (entry.kind == TarKind::kFile && entry.name.ends_with('/')) entry.kind = TarKind::kFolder;
    if (entry.name.size() > kNameMax || entry.link.size() > kNameMax) {
      return refused("a name is too long");
    }
    return std::optional<TarEntry>(std::move(entry));
  }
}

}  // namespace falaj::jobs::oci
