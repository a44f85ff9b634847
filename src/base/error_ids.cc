#include "base/error_ids.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"

namespace falaj {
namespace {

constexpr ErrorInfo kErrors[] = {
    {ErrorId::kInvalidArgument, Code::kInvalidArgument, "The request is not valid",
     "Correct the value that the message names and send the request again."},
    {ErrorId::kUnauthenticated, Code::kUnauthenticated, "The caller is not known",
     "Log in, or send a token that has not expired."},
    {ErrorId::kPermissionDenied, Code::kPermissionDenied, "The caller may not do this",
     "Ask an owner of the project for a grant, or use a project that you own."},
    {ErrorId::kNotFound, Code::kNotFound, "There is no such thing",
     "Check what the message names, and the project: 'falaj list KIND' shows objects, 'falaj jobs "
     "list' jobs."},
    {ErrorId::kConflict, Code::kConflict, "The request conflicts with the present state",
     "Look at what it is now; repeat the change if it is still wanted."},
    {ErrorId::kFailedPrecondition, Code::kFailedPrecondition, "Something must be done first",
     "Do the step that the message names, then repeat the request."},
    {ErrorId::kResourceExhausted, Code::kResourceExhausted, "A limit is reached",
     "Wait and retry, or raise the limit that the message names."},
    {ErrorId::kCancelled, Code::kCancelled, "The work was cancelled",
     "Start it again if it is still wanted."},
    {ErrorId::kInternal, Code::kInternal, "Falaj failed",
     "Repeat the request; if it fails again, report it with the request id and the log."},
    {ErrorId::kDataLoss, Code::kDataLoss, "Stored data cannot be read",
     "Stop writing, keep a copy of the data folder, and restore from a backup."},
    {ErrorId::kUnimplemented, Code::kUnimplemented, "This version cannot do that",
     "Use another way, or a version that has it; 'falaj version' prints yours."},
    {ErrorId::kUnavailable, Code::kUnavailable, "A part is not ready",
     "Retry after a moment; /readyz says which part is missing."},
    {ErrorId::kDeadlineExceeded, Code::kDeadlineExceeded, "The time given was not enough",
     "Retry with a longer deadline or a smaller request."},

    {ErrorId::kMalformedJson, Code::kInvalidArgument, "The text is not JSON",
     "Correct it at the line and column given."},
    {ErrorId::kMalformedYaml, Code::kInvalidArgument, "The text is not YAML that Falaj accepts",
     "Correct it at the line and column given; anchors, aliases and tags are not accepted."},
    {ErrorId::kUnknownField, Code::kInvalidArgument, "A field is not known",
     "Correct its spelling or remove it; the message names the nearest known field."},
    {ErrorId::kMissingField, Code::kInvalidArgument, "A required field is missing",
     "Add the field that the message names."},
    {ErrorId::kWrongType, Code::kInvalidArgument, "A field has the wrong type",
     "Write the value in the type that the message names."},
    {ErrorId::kOutOfRange, Code::kInvalidArgument, "A value is out of range",
     "Choose a value within the bounds given."},
    {ErrorId::kInvalidUtf8, Code::kInvalidArgument, "The text is not valid UTF-8",
     "Save the file as UTF-8 and send it again."},
    {ErrorId::kTooDeep, Code::kInvalidArgument, "The value is nested too deeply",
     "Flatten it below the depth given."},
    {ErrorId::kBodyTooLarge, Code::kInvalidArgument, "The body is too large",
     "Send it in parts, or raise server.body_max."},
    {ErrorId::kInvalidName, Code::kInvalidArgument, "A name is not valid",
     "Use 1 to 63 of a-z 0-9 _ -, beginning and ending with a letter or digit."},
    {ErrorId::kInvalidUnit, Code::kInvalidArgument, "A quantity cannot be read",
     "Write a number and a unit, like 250ms, 30d, 64Mi or 0.1%."},
    {ErrorId::kDuplicateField, Code::kInvalidArgument, "A field stands twice",
     "Keep one of the two."},
    {ErrorId::kUnknownSetting, Code::kInvalidArgument, "A setting is not known",
     "Correct its spelling; 'falaj config show' lists every setting."},
    {ErrorId::kHostRefused, Code::kPermissionDenied, "The request names a host that is not served",
     "Open the address that 'ready' printed; other names are refused against DNS rebinding."},
    {ErrorId::kFileUnreadable, Code::kNotFound, "A file or program cannot be read",
     "Check its path on the machine that the message is about, and that it may be read there."},
    {ErrorId::kUsage, Code::kInvalidArgument, "The command line is not valid",
     "Correct the word that the message names; '--help' after a command lists what it takes."},

    {ErrorId::kObjectNotFound, Code::kNotFound, "The object does not exist",
     "Check kind, name and project; 'falaj list KIND' shows what exists."},
    {ErrorId::kUnknownKind, Code::kInvalidArgument, "The kind is not known",
     "Use one of the kinds that the message lists."},
    {ErrorId::kReferenceMissing, Code::kFailedPrecondition, "An object names one that is missing",
     "Apply the object that is named first, or in the same file."},
    {ErrorId::kReferenceCycle, Code::kFailedPrecondition, "Objects name each other in a circle",
     "Remove one of the references that the message lists."},
    {ErrorId::kStillReferenced, Code::kConflict, "The object is still in use",
     "Delete or change the objects that the message lists first."},
    {ErrorId::kImmutableField, Code::kConflict, "A field cannot change once it is set",
     "Create a new object under another name, or restore the old value."},
    {ErrorId::kStaleGeneration, Code::kConflict, "The object changed in the meantime",
     "Look at it as it is now, then repeat what you did."},
    {ErrorId::kDuplicateObject, Code::kConflict, "The object exists already, or stands twice",
     "Choose another name, or keep one of the two."},

    {ErrorId::kMalformedTable, Code::kInvalidArgument, "The file is not a table that can be read",
     "Check that the file is complete and in the format that the source declares."},
    {ErrorId::kSchemaMismatch, Code::kInvalidArgument, "The columns differ from those declared",
     "Rename or convert the columns that the message names, or change the declaration."},
    {ErrorId::kAllRowsRejected, Code::kInvalidArgument, "Every row was rejected",
     "Read the reasons in the quarantine file that the message names."},
    {ErrorId::kSegmentCorrupt, Code::kDataLoss, "A segment does not match its hash",
     "Restore the file from a backup, or ingest its source again."},
    {ErrorId::kFeatureNameCollision, Code::kInvalidArgument, "Two features have the same name",
     "Rename one of them in the feature service with 'as'."},
    {ErrorId::kSpineInvalid, Code::kInvalidArgument, "The spine of the training set is not valid",
     "Give it the entity keys and the time column that the message names."},
    {ErrorId::kEntityKeyMissing, Code::kInvalidArgument, "An entity key is missing",
     "Send every key that the entity declares."},
    {ErrorId::kPushRefused, Code::kInvalidArgument, "A pushed row does not fit its feature view",
     "Correct the row that the message names and push again; nothing of the push was taken."},
    {ErrorId::kExpressionInvalid, Code::kInvalidArgument, "The expression is not valid",
     "Change it at the place that the message points to; docs/reference/expressions.md lists what "
     "there is."},
    {ErrorId::kExpectationBroken, Code::kInvalidArgument,
     "More rows broke an expectation than it allows",
     "Mend the source, or change the expectation; nothing of the file was taken."},

    {ErrorId::kJobFailed, Code::kFailedPrecondition, "The job ended with a failure",
     "Read the last lines of its log: 'falaj jobs logs ID'."},
    {ErrorId::kJobKilled, Code::kCancelled, "The job was killed",
     "See the audit for who stopped it; start it again if it is still wanted."},
    {ErrorId::kJobOutOfMemory, Code::kResourceExhausted, "The job needed more memory than allowed",
     "Raise its memory or jobs.memory_max, or give it less to hold."},
    {ErrorId::kJobTimedOut, Code::kDeadlineExceeded, "The job ran longer than allowed",
     "Raise its time or jobs.time_max, or give it less work."},
    {ErrorId::kQueueFull, Code::kResourceExhausted, "The queue is full",
     "Wait until a job ends, then submit again."},
    {ErrorId::kOnnxMismatch, Code::kFailedPrecondition,
     "The exported model answers differently from the trained one",
     "Nothing was registered; report the first differing row that the message names."},
    {ErrorId::kEngineUnavailable, Code::kUnavailable, "The training engine cannot be loaded",
     "Run './dev setup' or install the library that the message names."},
    {ErrorId::kJobOutOfDisk, Code::kResourceExhausted, "The job wrote more than allowed",
     "Raise its disk or jobs.disk_max, or have it write less."},
    {ErrorId::kImageRefused, Code::kFailedPrecondition, "The container image cannot be used",
     "The message names the file and what is wrong with it; build or copy the image again, and "
     "name its digest."},

    {ErrorId::kModelNotFound, Code::kNotFound, "The model or version does not exist",
     "'falaj models' lists models, versions and aliases."},
    {ErrorId::kModelCorrupt, Code::kDataLoss, "The model file does not match its hash",
     "Restore the file from a backup, or train and register again."},
    {ErrorId::kModelNotReady, Code::kUnavailable, "The model is not loaded yet",
     "Retry after a moment; its state is under /v2/models/NAME/ready."},
    {ErrorId::kTensorMismatch, Code::kInvalidArgument, "The input does not fit the model",
     "Send the names, types and shapes that the model's metadata lists."},
    {ErrorId::kRuntimeUnavailable, Code::kUnavailable, "The model runtime cannot be loaded",
     "Run './dev setup' or install the library that the message names."},
    {ErrorId::kOverloaded, Code::kUnavailable, "The request cannot be answered in time",
     "Retry after the time given in Retry-After, send less at once, or give the deployment a "
     "longer slo."},

    {ErrorId::kMonitorNoReference, Code::kFailedPrecondition,
     "The monitor has nothing to compare with",
     "Deploy a version that was trained on a frozen training set."},
    {ErrorId::kLabelsMissing, Code::kFailedPrecondition, "There are no labels for the window",
     "Ingest labels, or choose a window whose labels have matured."},

    {ErrorId::kAuditBroken, Code::kDataLoss, "The audit log was altered",
     "Keep the data folder as it is, and compare it with a backup at the entry named."},
    {ErrorId::kReplayDiffers, Code::kDataLoss, "A decision cannot be reproduced",
     "Keep the data folder, and report the entry with both outcomes."},
    {ErrorId::kUnsafeListen, Code::kFailedPrecondition,
     "Listening beyond loopback needs TLS and an administrator",
     "Set server.tls_cert and server.tls_key, or listen on 127.0.0.1."},

    {ErrorId::kSetupPending, Code::kFailedPrecondition,
     "The server waits for its first administrator",
     "Open the one-time setup link that 'falaj serve' printed, or run 'falaj setup' with its "
     "secret."},
    {ErrorId::kCredentialRefused, Code::kUnauthenticated, "The credential was refused",
     "Check the name and secret, or ask an administrator for a new one."},
    {ErrorId::kCredentialExpired, Code::kUnauthenticated,
     "The credential has expired or was revoked",
     "Run 'falaj login' again, or ask for a new token."},
    {ErrorId::kTokenMalformed, Code::kUnauthenticated,
     "The token is not one that this server accepts",
     "Get a fresh token from the identity provider that the server trusts."},
    {ErrorId::kCsrfRefused, Code::kPermissionDenied,
     "The request did not come from the console's own page", "Reload the console and try again."},
    {ErrorId::kReasonMissing, Code::kPermissionDenied,
     "This role can only be used with a stated reason",
     "Say why: --reason \"...\" (it is recorded and alerts the administrators)."},
    {ErrorId::kRateLimited, Code::kResourceExhausted,
     "Too many requests from this caller or project",
     "Wait for the time that Retry-After names, or ask for a higher limit."},
    {ErrorId::kQuotaReached, Code::kResourceExhausted, "The project's quota is used up",
     "Delete what is not needed, or ask an administrator to raise the quota."},
    {ErrorId::kPeerRefused, Code::kUnauthenticated, "The other side's certificate is not believed",
     "Name the server's authority with --ca or FALAJ_CA (falaj serve prints it); for a process, "
     "check the trust domain and that both sides are of the same deployment."},
    {ErrorId::kProviderUnavailable, Code::kUnavailable,
     "The identity provider cannot be reached or answers wrongly",
     "Check security.oidc_issuer and the network between this server and the provider."},
    {ErrorId::kZoneMissing, Code::kPermissionDenied, "The data carries no zone",
     "Declare the project's zone first: unlabelled data is refused."},
    {ErrorId::kZoneRefused, Code::kPermissionDenied, "The bytes may not go there",
     "Read the rule in the message; a Transfer object is the only way across."},
    {ErrorId::kTransferInvalid, Code::kPermissionDenied, "The transfer does not cover this flow",
     "Check its ground, destination, approver and expiry."},
    {ErrorId::kPurposeRefused, Code::kPermissionDenied,
     "The purpose is not the one the data was collected for",
     "Use data of this purpose, or record the ground that allows the other."},
    {ErrorId::kRetentionHeld, Code::kFailedPrecondition,
     "The data must be kept until its retention ends",
     "Wait for the date in the message, or lift the legal hold."},
    {ErrorId::kVaultSealed, Code::kUnavailable, "The key vault cannot be opened",
     "Give the passphrase or the token's PIN, and check the vault's settings."},
    {ErrorId::kKeyMissing, Code::kNotFound, "The key does not exist or was shredded",
     "Nothing can be read under a shredded key; restore from a copy that is still allowed."},
    {ErrorId::kKeyVersionRefused, Code::kPermissionDenied,
     "The key version is older than the least allowed one",
     "Rewrap the object under the newest version: falaj keys rotate."},
    {ErrorId::kDecryptFailed, Code::kDataLoss, "The bytes cannot be opened under their key",
     "They were changed, moved or truncated: restore them from a backup."},
    {ErrorId::kAuditUnavailable, Code::kUnavailable,
     "The audit log cannot be written, so nothing privileged is done",
     "Free the disk or repair the log, then try again."},
    {ErrorId::kRolledBack, Code::kDataLoss, "The store is older than its last signed tree head",
     "The data folder was replaced by an older copy: restore the newest, or ask the witness's "
     "administrator."},
    {ErrorId::kProofInvalid, Code::kDataLoss, "The proof does not verify",
     "The log or the bundle was changed after it was signed."},
    {ErrorId::kSignerUnavailable, Code::kUnavailable, "The signer process does not answer",
     "Look at the server's log; it is restarted by itself."},
    {ErrorId::kWitnessRefused, Code::kFailedPrecondition, "The witness refuses the tree head",
     "It has seen a larger or another tree: compare both before going on."},
    {ErrorId::kModelFormatRefused, Code::kInvalidArgument,
     "This kind of model file is not accepted",
     "Bring ONNX, or LightGBM/XGBoost as text or JSON; formats that can carry code are refused."},
    {ErrorId::kModelSignatureInvalid, Code::kPermissionDenied,
     "The model's signature does not verify",
     "Sign this version again from its source, or allow its signer in the policy."},
    {ErrorId::kSandboxUnavailable, Code::kFailedPrecondition,
     "The machine cannot confine this work",
     "See 'falaj doctor'; jobs.sandbox=best_effort accepts less."},
    {ErrorId::kJobScopeExceeded, Code::kPermissionDenied,
     "The job asked for something outside its named inputs and outputs",
     "Name it in the job's declaration."},

    {ErrorId::kDataFolderLocked, Code::kUnavailable, "Another process uses the data folder",
     "Stop that process, or choose another folder with --data."},
    {ErrorId::kDataFolderReadOnly, Code::kFailedPrecondition, "The data folder is not writable",
     "Give this user write permission, or choose another folder with --data."},
    {ErrorId::kDataFolderFull, Code::kResourceExhausted, "The disk is full",
     "Free space on the disk of the data folder, then start again."},
    {ErrorId::kDataFolderNewer, Code::kFailedPrecondition,
     "The data folder was written by a newer version",
     "Start the newer version, or restore a backup from before the upgrade."},
    {ErrorId::kDatabaseCorrupt, Code::kDataLoss, "The metadata database is damaged",
     "Keep a copy of the data folder and restore the database from a backup."},
    {ErrorId::kBlobCorrupt, Code::kDataLoss, "A stored file does not match its hash",
     "Restore the file from a backup, or produce it again."},
    {ErrorId::kPortInUse, Code::kUnavailable, "The port is in use",
     "Stop the process that holds it, or choose another with --port."},
    {ErrorId::kServerUnreachable, Code::kUnavailable, "The server does not answer",
     "Start it with 'falaj dev' or 'falaj serve', or name it with --server."},
    {ErrorId::kOnlineStoreUnavailable, Code::kUnavailable, "The online store does not answer",
     "Start the Redis server that storage.redis.url names; Falaj connects again by itself."},
    {ErrorId::kOnlineStoreRefused, Code::kFailedPrecondition,
     "The online store cannot be used as it is set up",
     "Change what the message names, in the Redis server or in the settings storage.redis.*."},
};

constexpr bool ascends() {
  for (std::size_t i = 1; i < std::size(kErrors); ++i) {
    if (kErrors[i - 1].id >= kErrors[i].id) return false;
  }
  return true;
}
static_assert(ascends(), "the table must ascend by number: it is searched by halves");

const ErrorInfo* row(ErrorId id) {
  const auto* found =
      std::lower_bound(std::begin(kErrors), std::end(kErrors), id,
                       [](const ErrorInfo& info, ErrorId wanted) { return info.id < wanted; });
  return found != std::end(kErrors) && found->id == id ? found : nullptr;
}

}  // namespace

const ErrorInfo& error_info(ErrorId id) {
  const ErrorInfo* info = row(id);
  FALAJ_CHECK(info != nullptr);
  return *info;
}

std::span<const ErrorInfo> all_errors() { return kErrors; }

const ErrorInfo* find_error(std::string_view text) {
  const bool prefixed = text.size() > 3 && (text[0] == 'F' || text[0] == 'f') &&
                        (text[1] == 'J' || text[1] == 'j') && text[2] == '-';
  if (prefixed) text.remove_prefix(3);
  std::uint16_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return nullptr;
  return row(static_cast<ErrorId>(number));
}

ErrorId generic_error_id(Code code) { return static_cast<ErrorId>(code); }

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kUnauthenticated:
      return "unauthenticated";
    case Code::kPermissionDenied:
      return "permission_denied";
    case Code::kNotFound:
      return "not_found";
    case Code::kConflict:
      return "conflict";
    case Code::kFailedPrecondition:
      return "failed_precondition";
    case Code::kResourceExhausted:
      return "resource_exhausted";
    case Code::kCancelled:
      return "cancelled";
    case Code::kInternal:
      return "internal";
    case Code::kDataLoss:
      return "data_loss";
    case Code::kUnimplemented:
      return "unimplemented";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kDeadlineExceeded:
      return "deadline_exceeded";
  }
  FALAJ_CHECK(false && "a code outside the enumeration");
}

}  // namespace falaj
