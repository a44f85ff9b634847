// jobs/checkpoint/internal/tree.h — a checkpoint's files, measured, hashed or copied.
//
// What a worker left is not trusted: no link is followed, nothing but files and folders is
// accepted, and there are limits on how much. Such refusals are kInvalidArgument and final; what a
// disk says is FJ-8003 when it is full and kUnavailable otherwise, and may be tried again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "crypto/secret.h"
#include "jobs/checkpoint/manifest.h"
#include "storage/open.h"

namespace falaj::jobs::checkpoint {

// With a key, files are copied sealed (sealing.h): flat, each under its sealed name.
struct SealAs {
  const crypto::SecretBytes* key = nullptr;
  std::int64_t number = 0;    // Of the checkpoint.
  std::string rename_file{};  // What a tree of one file calls it; "": as it is.
};

struct TreeOptions {
  std::int64_t bytes_max = INT64_MAX;
  storage::Durability durability = storage::Durability::kSync;
  std::function<Status()> on_chunk{};  // Asked about every MiB; an error ends the work.
  SealAs sealed{};
};

struct Tree {
  Form form = Form::kFolder;
  std::vector<FileEntry> files;  // By path; without hashes when only measured.
};

// `name` in the open folder `parent`. A file is a tree of one, under its own name.
Result<Tree> measure_tree(int parent, const std::string& name, const TreeOptions& options);
Result<Tree> hash_tree(int parent, const std::string& name, const TreeOptions& options);
// Into the open, empty folder `to`; every file and folder below is durable when it returns, `to`
// too.
Result<Tree> copy_tree(int parent, const std::string& name, int to, const TreeOptions& options);

Result<Descriptor> open_folder(const std::string& path);
Status sync(int file, const std::string& path, storage::Durability durability);
Status write_all(int file, std::string_view bytes, const std::string& path);
// `error` is an errno.
Error disk_error(int error, std::string_view what, const std::string& path);
// Names in an open folder, sorted, without "." and "..".
Result<std::vector<std::string>> names_in(int folder, const std::string& path);

}  // namespace falaj::jobs::checkpoint
