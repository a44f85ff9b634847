#include "config/settings.h"

#include <gtest/gtest.h>

#include <set>

namespace falaj::config {
namespace {

TEST(Settings, every_declaration_is_sound) {
  std::set<std::string_view> keys;
  std::string_view last;
  for (const Setting& setting : declared()) {
    SCOPED_TRACE(setting.key);
    EXPECT_TRUE(keys.insert(setting.key).second);
    EXPECT_LT(last, setting.key) << "by key";
    last = setting.key;
    EXPECT_TRUE(setting.help.ends_with('.'));
    EXPECT_EQ(setting.key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_."),
              std::string::npos);
    const bool bounded = setting.type == SettingType::kInteger ||
                         setting.type == SettingType::kBytes ||
                         setting.type == SettingType::kDuration;
    EXPECT_EQ(bounded, setting.max > setting.min);
    EXPECT_EQ(setting.type == SettingType::kChoice, !setting.choices.empty());
  }
  EXPECT_TRUE(Settings::load({}).ok()) << "the defaults fit their own bounds";
}

TEST(Settings, have_the_documented_defaults) {
  const Settings settings = Settings::load({}).value();
  EXPECT_EQ(settings.integer("server.port"), 7070);
  EXPECT_EQ(settings.integer("server.grpc_port"), 7071);
  EXPECT_EQ(settings.text("server.host"), "127.0.0.1");
  EXPECT_EQ(settings.integer("server.body_max"), std::int64_t{256} << 20);
  EXPECT_EQ(settings.duration("server.idle_timeout"), Duration::seconds(75));
  EXPECT_EQ(settings.text("log.level"), "info");
  EXPECT_EQ(settings.text("jobs.sandbox"), "required") << "a sandbox that is not there is a fault";
  EXPECT_EQ(settings.origin("server.port"), Origin::kDefault);
}

TEST(Settings, a_stronger_source_wins) {
  Sources sources;
  sources.file_name = "falaj.yaml";
  sources.file_text = "server: {port: 1, grpc_port: 2, threads: 3}\nlog.level: warn\n";
  sources.environment = {{"FALAJ_SERVER_PORT", "11"},
                         {"FALAJ_SERVER_GRPC_PORT", "12"},
                         {"FALAJ_SERVER", "http://x"},
                         {"HOME", "x"}};
  sources.flags = {{"server.port", "21"}};
  const auto loaded = Settings::load(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->integer("server.port"), 21);
  EXPECT_EQ(loaded->integer("server.grpc_port"), 12);
  EXPECT_EQ(loaded->integer("server.threads"), 3);
  EXPECT_EQ(loaded->text("log.level"), "warn");
  EXPECT_EQ(loaded->origin_text("server.port"), "--set server.port=…");
  EXPECT_EQ(loaded->origin_text("server.grpc_port"), "environment FALAJ_SERVER_GRPC_PORT");
  EXPECT_EQ(loaded->origin_text("server.threads"), "file falaj.yaml");
  EXPECT_EQ(loaded->origin("log.level"), Origin::kFile);
  EXPECT_EQ(loaded->origin_text("data.dir"), "default");
}

Error load_error(const Sources& sources) {
  const auto loaded = Settings::load(sources);
  return loaded.ok() ? Error(Code::kInternal, "loaded") : loaded.error();
}

TEST(Settings, an_unknown_key_is_refused_with_the_nearest_name) {
  const Error flag = load_error({.flags = {{"server.prot", "1"}}});
  EXPECT_EQ(flag.id, ErrorId::kUnknownSetting);
  EXPECT_EQ(flag.message,
            "--set server.prot=…: there is no setting 'server.prot': did you mean 'server.port'?");
  const Error file = load_error({.file_name = "f.yaml", .file_text = "server: {prot: 1}"});
  EXPECT_EQ(file.id, ErrorId::kUnknownSetting);
  EXPECT_NE(file.message.find("file f.yaml"), std::string::npos);
  const Error environment = load_error({.environment = {{"FALAJ_SERVER_PROT", "1"}}});
  EXPECT_EQ(environment.id, ErrorId::kUnknownSetting);
  EXPECT_NE(environment.message.find("FALAJ_SERVER_PORT"), std::string::npos);
  EXPECT_EQ(load_error({.environment = {{"FALAJ_LOG_COLOURS_OF_EVERYTHING", "1"}}}).id,
            ErrorId::kUnknownSetting);
  EXPECT_EQ(load_error({.environment = {{"FALAJ_SEVER_PORT", "1"}}}).id, ErrorId::kUnknownSetting);
}

TEST(Settings, leave_the_variables_of_other_programs_alone) {
  EXPECT_TRUE(Settings::load({.environment = {{"FALAJ_SERVER", "http://x"},
                                              {"FALAJ_LIBRARY_DIR", "x"},
                                              {"FALAJ_PROJECT", "payments"},
                                              {"FALAJ_PORT", "x"},
                                              {"SERVER_PORT", "x"}}})
                  .ok());
}

TEST(Settings, a_value_that_does_not_fit_is_refused_with_its_origin) {
  const auto flag = [](std::string key, std::string text) {
    return load_error({.flags = {{std::move(key), std::move(text)}}});
  };
  EXPECT_EQ(flag("server.port", "70000").id, ErrorId::kOutOfRange);
  EXPECT_EQ(flag("server.port", "70000").message,
            "--set server.port=…: server.port: '70000' is not a whole number from 0 to 65535");
  EXPECT_EQ(flag("server.port", "-1").id, ErrorId::kOutOfRange);
  EXPECT_EQ(flag("server.port", "http").id, ErrorId::kWrongType);
  EXPECT_EQ(flag("server.port", "").id, ErrorId::kWrongType);
  EXPECT_EQ(flag("server.port", "80 ").id, ErrorId::kWrongType);
  EXPECT_EQ(flag("server.body_max", "lots").id, ErrorId::kInvalidUnit);
  EXPECT_EQ(flag("jobs.time_max", "60").id, ErrorId::kInvalidUnit);
  EXPECT_EQ(flag("jobs.time_max", "0").id, ErrorId::kOutOfRange);
  EXPECT_EQ(flag("log.level", "loud").id, ErrorId::kOutOfRange);
}

TEST(Settings, a_broken_file_is_refused) {
  const auto file = [](std::string text) {
    return load_error({.file_name = "f.yaml", .file_text = std::move(text)}).id;
  };
  EXPECT_EQ(file("server: ["), ErrorId::kMalformedYaml);
  EXPECT_EQ(file("- server"), ErrorId::kWrongType);
  EXPECT_EQ(file("server: {port: 1}\n---\nserver: {port: 2}\n"), ErrorId::kWrongType);
  EXPECT_EQ(file("server: {port: [1]}"), ErrorId::kWrongType);
  EXPECT_EQ(file("server: {port: 1}\nserver.port: 2\n"), ErrorId::kDuplicateField);
  EXPECT_EQ(file("server: {port: 1, port: 2}"), ErrorId::kDuplicateField);
  EXPECT_TRUE(Settings::load({.file_name = "f.yaml", .file_text = ""}).ok());
}

const std::vector<Setting>& with_secret() {
  static const std::vector<Setting> settings = {
      {"vault.token", SettingType::kText, "", "The token.", 0, 0, {}, Secrecy::kSecret},
      {"vault.pin", SettingType::kInteger, "1", "The pin.", 1, 9, {}, Secrecy::kSecret}};
  return settings;
}

TEST(Settings, a_secret_is_never_shown) {
  const auto loaded = Settings::load({.flags = {{"vault.token", "hunter2"}}}, with_secret());
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->text("vault.token"), "hunter2");
  EXPECT_EQ(loaded->shown("vault.token"), "***");
  EXPECT_EQ(loaded->explain("vault.token")->find("hunter2"), std::string::npos);
  EXPECT_EQ(loaded->to_value().as_array()[0].text("value"), "***");
  const auto refused = Settings::load({.flags = {{"vault.pin", "77"}}}, with_secret());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message.find("77"), std::string::npos);
}

TEST(Settings, explain_tells_everything_about_one) {
  const Settings settings = Settings::load({.flags = {{"server.port", "0"}}}).value();
  EXPECT_EQ(*settings.explain("server.port"),
            "server.port\n"
            "  The HTTP port; 0 lets the system choose.\n"
            "  type:        a whole number from 0 to 65535\n"
            "  default:     7070\n"
            "  environment: FALAJ_SERVER_PORT\n"
            "  flag:        --set server.port=…\n"
            "  now:         0 (--set server.port=…)\n");
  EXPECT_EQ(settings.explain("server.prt").error().id, ErrorId::kUnknownSetting);
}

TEST(SettingsDeath, asking_for_the_wrong_type_stops_the_process) {
  const Settings settings = Settings::load({}).value();
  EXPECT_DEATH(static_cast<void>(settings.integer("server.host")), "broken invariant");
  EXPECT_DEATH(static_cast<void>(settings.text("no.such")), "broken invariant");
}

}  // namespace
}  // namespace falaj::config
