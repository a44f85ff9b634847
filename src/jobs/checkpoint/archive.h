// jobs/checkpoint/archive.h — the folder on disk where checkpoints are kept.
//
//   FOLDER/00000012-epoch3/…      the files as the worker wrote them
//   FOLDER/00000012-epoch3.json   the manifest, written last: without it there is no checkpoint
//   FOLDER/.staged-12, *.new      on their way in; swept away by the next writer
//   FOLDER/keeper.lock            held by the one process that writes
//
// Without a key files lie as they were written, so the folder belongs on a disk that is encrypted;
// with one as sealing.h says. The server's TrainJobs have one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "jobs/checkpoint/manifest.h"
#include "jobs/checkpoint/sealing.h"
#include "storage/open.h"

namespace falaj::jobs::checkpoint {

// The one writer of a folder. One thread at a time.
class Archive {
 public:
  struct Source {
    int parent = -1;          // Open folder …
    std::string entry;        // … and what in it is the checkpoint, a file or a folder.
    Manifest about;           // Number, name, time and metric.
    std::string rename_file;  // What a checkpoint that is one file is called; "": as `entry`.
  };
  struct Options {
    std::int64_t bytes_max = INT64_MAX;  // Of one checkpoint.
    storage::Durability durability = storage::Durability::kSync;
    std::function<Status()> on_chunk;  // Asked about every MiB; an error ends the write.
    ArchiveKey key{};                  // What is written is sealed with it.
  };

  // Makes the folder if needed, takes it for this process (FJ-8001 when another has it) and sweeps
  // away what was half done. Checkpoints that are there stay, damaged ones too. kFailedPrecondition
  // for a sealed archive without its key.
  static Result<std::unique_ptr<Archive>> open(const std::string& folder, Options options);

  // Copy → hash → fsync → rename → manifest. When it returns the checkpoint survives power loss;
  // when it fails nothing of it is seen, and it may be tried again: nothing is ever synced twice,
  // each try copies anew. kInvalidArgument: the source is refused for good. FJ-8003, kUnavailable:
  // the disk said so. What on_chunk said, otherwise.
  Result<Manifest> write(const Source& source);

  // Whole manifests, oldest first.
  const std::vector<Manifest>& manifests() const { return manifests_; }
  // Manifest first, so that no reader ever finds half a checkpoint that says it is whole.
  Status remove(std::int64_t number);
  // Larger than any number that was ever seen here.
  std::int64_t next_number() const { return next_number_; }

 private:
  Archive(std::string folder, Options options, Descriptor lock, Descriptor opened)
      : folder_(std::move(folder)),
        options_(std::move(options)),
        lock_(std::move(lock)),
        opened_(std::move(opened)) {}
  Status look();
  Result<Manifest> write_staged(const Source& source, const std::string& staged);
  Status commit(const Manifest& manifest, const std::string& staged);
  Status put_manifest(const Manifest& manifest);
  // Under which name it lies: those that an earlier version left in a sealed archive have their
  // own.
  std::string lies_as(const Manifest& manifest) const;
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  const std::string folder_;
  const Options options_;
  Descriptor lock_;
  Descriptor opened_;
  std::vector<Manifest> manifests_;
  std::int64_t next_number_ = 1;
};

// Reading needs no lock and may go on beside the writer.

struct Listed {
  std::string folder;         // "00000012-epoch3"
  Result<Manifest> manifest;  // kDataLoss when it is damaged.
  bool sealed = false;
};
// Every checkpoint that has a manifest, oldest first. kNotFound when there is no such folder.
Result<std::vector<Listed>> list_checkpoints(const std::string& folder, const ArchiveKey& key = {});

// When the newest manifest was put there, by the disk's clock, whatever stands in it: what a look
// without the key can tell. Zero when there is none.
Timestamp newest_kept(const std::string& folder);

// Reads every byte. kDataLoss names the first file that is missing, changed or too many.
Status verify_checkpoint(const std::string& folder, const Manifest& manifest);

struct Restored {
  Manifest manifest;
  std::string path;                  // What the worker saved: the file, or the folder.
  std::vector<std::string> skipped;  // Newer ones that are damaged, and how.
};
// The newest whole one, every byte checked; damaged ones are passed over. A sealed one is opened
// into the folder `opened`, which is emptied first and should be in memory. kNotFound when there is
// none at all, kDataLoss when all are damaged.
Result<Restored> restore(const std::string& folder, const ArchiveKey& key = {},
                         const std::string& opened = "");
// Copies it to `to`, which must not exist, checking the hashes of what was copied. kConflict when
// it does; kDataLoss when what arrived is not what was saved; then nothing is left there.
Status copy_out(const Restored& restored, const std::string& to);

}  // namespace falaj::jobs::checkpoint
