// usage: fault_key_writer FOLDER SEED
//
// Makes, rotates, raises and shreds keys for ever, as the seed says. Lines on standard output:
//   key OBJECT HEADER SHA   a data key was made (header and hash of the key, hexadecimal)
//   begin OBJECT            about to shred the object
//   shred OBJECT            it was shredded
//   turning, turn           something is about to be rotated; it was
//   end FJ-NNNN             a call failed; the process ends
// Whoever started it kills it.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <random>

#include "key_tree_on_disk.h"

namespace falaj::faults {
namespace {

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) ::_exit(1);
}

int fail(const Error& error) {
  ::fprintf(stderr, "%s\n", error.message.c_str());
  say("end " + to_string(error.id));
  return 1;
}

Status step(keys::KeyTree& tree, std::mt19937& random) {
  const int object = static_cast<int>(random() % kObjects);
  const auto choice = static_cast<unsigned>(random() % 100);
  if (choice < 70) {
    const keys::DataKey made = FALAJ_TRY(tree.new_data_key(scope_of(object)));
    say("key " + std::to_string(object) + " " + hex(made.wrapped) + " " +
        sha256_hex(made.key.view()));
    return {};
  }
  if (choice < 76) {
    say("begin " + std::to_string(object));
    const Result<keys::ShredReceipt> receipt = tree.shred(scope_of(object));
    if (!receipt.ok() && receipt.error().id != ErrorId::kKeyMissing) return receipt.error();
    say("shred " + std::to_string(object));
    return {};
  }
  keys::KeyScope scope = scope_of(object);
  if (choice < 82) scope.object.clear();   // The project's.
  if (choice < 79) scope.project.clear();  // The zone's root.
  if (choice >= 97) scope = {};            // The machine's.
  say("turning");
  const Result<keys::RotateReport> report = tree.rotate(scope);
  if (!report.ok()) {
    return report.error().id == ErrorId::kKeyMissing ? Status() : Status(report.error());
  }
  say("turn");
  if (choice % 2 == 0) FALAJ_TRY(tree.raise_min_version(scope, report->version));
  return {};
}

int run(const std::string& folder, unsigned seed) {
  auto disk = KeyTreeOnDisk::open(folder);
  if (!disk.ok()) return fail(disk.error());
  std::mt19937 random(seed);
  while (true) {
    const Status done = step(*(*disk)->tree, random);
    if (!done.ok()) return fail(done.error());
  }
}

}  // namespace
}  // namespace falaj::faults

int main(int argc, char** argv) {
  if (argc != 3) {
    ::fprintf(stderr, "usage: fault_key_writer FOLDER SEED\n");
    return 2;
  }
  return falaj::faults::run(argv[1], static_cast<unsigned>(::atoi(argv[2])));
}
