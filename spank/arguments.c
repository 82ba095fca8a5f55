#include <slurm/spank.h>
#include <stdlib.h>
#include <string.h>

#include "spank/plugin.h"

enum Form { path, names, number, on_or_off };

struct Argument {
  const char* key;
  size_t place;  // in struct Settings
  enum Form form;
  int most;  // largest number; the least is 0
};

static const struct Argument kArguments[] = {
    {.key = "collector", .place = offsetof(struct Settings, collector), .form = path},
    {.key = "spool", .place = offsetof(struct Settings, spool), .form = path},
    {.key = "disable", .place = offsetof(struct Settings, disable), .form = path},
    {.key = "config", .place = offsetof(struct Settings, config), .form = path},
    {.key = "default", .place = offsetof(struct Settings, always), .form = on_or_off},
    {.key = "epilog_seconds", .place = offsetof(struct Settings, epilog_seconds), .form = number, .most = 60},
    {.key = "partition", .place = offsetof(struct Settings, partitions), .form = names},
    {.key = "account", .place = offsetof(struct Settings, accounts), .form = names},
    {.key = "percent", .place = offsetof(struct Settings, percent), .form = number, .most = 100},
};

enum { kArgumentCount = sizeof kArguments / sizeof kArguments[0], kLongestKey = 24 };

/// Why `value` cannot be taken; NULL when it was.
static const char* take(const struct Argument* argument, const char* value, struct Settings* settings) {
  void* const place = (char*)settings + argument->place;
  switch (argument->form) {
    case path:
      if (value[0] != '/') return "needs an absolute path";
      *(const char**)place = value;
      return NULL;
    case names:
      if (value[0] == '\0') return "needs a name";
      *(const char**)place = value;
      return NULL;
    case number: {
      char* end = NULL;
      const long amount = strtol(value, &end, 10);
      if (end == value || *end != '\0' || amount < 0 || amount > argument->most) return "needs a number in its range";
      *(int*)place = (int)amount;
      return NULL;
    }
    case on_or_off:
      if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0) return "is on or off";
      *(bool*)place = strcmp(value, "on") == 0;
      return NULL;
  }
  return "is not understood";
}

static void read_argument(const char* word, struct Settings* settings, enum Complaints complaints) {
  const char* const equals = strchr(word, '=');
  const size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
  for (size_t i = 0; i < kArgumentCount; ++i) {
    const struct Argument* const argument = &kArguments[i];
    if (strlen(argument->key) != length || strncmp(argument->key, word, length) != 0) continue;
    const char* const why = take(argument, equals != NULL ? equals + 1 : "", settings);
    if (why != NULL && complaints == complain) {
      slurm_info("reveal: plugstack.conf: \"%s\" is ignored: %s %s", word, argument->key, why);
    }
    return;
  }
  if (complaints == be_silent) return;
  const char* const near = nearest_key(word, length, kArguments, sizeof kArguments[0], kArgumentCount);
  slurm_info("reveal: plugstack.conf: unknown argument \"%s\" is ignored%s%s%s", word,
             near != NULL ? "; did you mean \"" : "", near != NULL ? near : "", near != NULL ? "=\"?" : "");
}

struct Settings read_arguments(int count, char* words[], enum Complaints complaints) {
  struct Settings settings = {
      .collector = REVEAL_COLLECTOR,
      .spool = "/var/spool/reveal",
      .disable = "/etc/reveal/disable",
      .config = "/etc/reveal/reveal.conf",
      .epilog_seconds = 5,
      .percent = 100,
  };
  for (int i = 0; i < count; ++i) read_argument(words[i], &settings, complaints);
  return settings;
}

bool in_list(const char* list, const char* word) {
  const size_t length = strlen(word);
  while (length > 0) {
    const size_t part = strcspn(list, ",");
    if (part == length && strncmp(list, word, length) == 0) return true;
    if (list[part] == '\0') return false;
    list += part + 1;
  }
  return false;
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

static size_t edit_distance(const char* word, size_t length, const char* key, size_t key_length) {
  size_t row[kLongestKey + 1];
  for (size_t k = 0; k <= key_length; ++k) row[k] = k;
  for (size_t w = 0; w < length; ++w) {
    size_t diagonal = row[0];
    row[0] = w + 1;
    for (size_t k = 0; k < key_length; ++k) {
      const size_t changed = diagonal + (word[w] != key[k]);
      diagonal = row[k + 1];
      row[k + 1] = smaller(changed, smaller(row[k], row[k + 1]) + 1);
    }
  }
  return row[key_length];
}

const char* nearest_key(const char* word, size_t length, const void* rows, size_t row_size, size_t row_count) {
  enum { kTypingError = 3 };  // this many changes are another word
  const char* nearest = NULL;
  size_t least = kTypingError;
  for (size_t i = 0; length > 0 && length <= kLongestKey && i < row_count; ++i) {
    const char* const key = *(const char* const*)((const char*)rows + i * row_size);
    const size_t key_length = strlen(key);
    if (key_length > kLongestKey) continue;
    const size_t distance = edit_distance(word, length, key, key_length);
    // Two changes leave nothing of a short word: "out" is not "off".
    if (distance >= least || distance * 2 > key_length) continue;
    least = distance;
    nearest = key;
  }
  return nearest;
}
