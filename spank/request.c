#include <stdio.h>
#include <string.h>

#include "spank/plugin.h"

struct Key {
  const char* name;
  const char* example;  // NULL: takes no value
  bool may_stand_alone;
};

static const struct Key kKeys[] = {
    {"interval", "1s", false},
    {"output", "out/%j", false},
    {"mail", "me@example.org", true},
    {"probes", "cpu+memory", false},
    {"stack", "on", true},
    {"intervene", "off", false},
    {"off", NULL, true},
};

enum { kKeyCount = sizeof kKeys / sizeof kKeys[0], kLongestQuote = 60 };

static bool is_key(const char* part, size_t length, const char* key) {
  return strlen(key) == length && strncmp(part, key, length) == 0;
}

bool request_is_off(const char* request) {
  for (;;) {
    if (is_key(request, strcspn(request, ",="), "off")) return true;
    request += strcspn(request, ",");
    if (*request == '\0') return false;
    ++request;
  }
}

bool request_output(const char* request, char* directory, size_t size) {
  static const char kOutput[] = "output=";
  for (;;) {
    const size_t length = strcspn(request, ",");
    const size_t begin = sizeof kOutput - 1;
    if (length > begin && strncmp(request, kOutput, begin) == 0) {
      const size_t copied = length - begin;
      if (copied >= size) return false;
      memcpy(directory, request + begin, copied);
      directory[copied] = '\0';
      return true;
    }
    request += length;
    if (*request == '\0') return false;
    ++request;
  }
}

static bool part_problem(const char* part, size_t length, char* message, size_t size) {
  size_t key_length = strcspn(part, ",=");
  if (key_length > length) key_length = length;
  const int quoted = key_length < kLongestQuote ? (int)key_length : kLongestQuote;
  for (size_t i = 0; i < kKeyCount; ++i) {
    if (!is_key(part, key_length, kKeys[i].name)) continue;
    if (kKeys[i].example == NULL || key_length + 1 < length) return false;
    if (kKeys[i].may_stand_alone && key_length == length) return false;
    snprintf(message, size, "reveal: \"%s\" needs a value, for example %s=%s; ignored", kKeys[i].name, kKeys[i].name,
             kKeys[i].example);
    return true;
  }
  const char* const near = nearest_key(part, key_length, kKeys, sizeof kKeys[0], kKeyCount);
  if (near != NULL) {
    snprintf(message, size, "reveal: unknown key \"%.*s\" in --reveal is ignored; did you mean \"%s\"?", quoted, part,
             near);
  } else {
    snprintf(message, size,
             "reveal: unknown key \"%.*s\" in --reveal is ignored; known are interval, output, mail, probes, stack, "
             "intervene, "
             "off",
             quoted, part);
  }
  return true;
}

bool request_problem(const char* request, char* message, size_t size) {
  for (;;) {
    const size_t length = strcspn(request, ",");
    if (length > 0 && part_problem(request, length, message, size)) return true;
    request += length;
    if (*request == '\0') return false;
    ++request;
  }
}
