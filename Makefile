# countd: all test bench check cover fuzz mutants demo install uninstall clean
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man
INSTALL    ?= install
PKG_CONFIG ?= pkg-config
BUILD      ?= build/release
CFLAGS     ?= -O2 -g
WARN := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Wundef -Wcast-qual -Wcast-align \
        -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wformat=2 -Wpointer-arith
pc    = $(shell $(PKG_CONFIG) --libs $(1) 2>/dev/null || echo $(2))
override CPPFLAGS += -I. -D_GNU_SOURCE -MMD -MP
override CFLAGS   += -std=c11 -fPIC -fvisibility=hidden -pthread $(WARN) $(MODE)
LDLIBS   += $(call pc,lmdb,-llmdb) $(call pc,zlib,-lz)
WRAP     := linkat unlinkat renameat2 fchmod pwrite pwritev pread fdatasync fsync openat flock ftruncate
TESTLIBS := $(WRAP:%=-Wl,--wrap=%) $(call pc,cmocka,-lcmocka)

objs   = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(addsuffix /*.c,$(1))))
bins   = $(patsubst %.c,$(BUILD)/%,$(wildcard $(1)))
DAEMONS := $(addprefix $(BUILD)/countd-,write worker read)
LIBOBJS := $(addprefix $(BUILD)/common/,client/countd.o bytes.o message.o query.o)
TESTS := $(call bins,tests/unit/test_*.c tests/e2e/test_*.c tests/crash/test_*.c)

all: $(DAEMONS)
$(BUILD)/countd-write:  $(call objs,writer common)
$(BUILD)/countd-worker: $(call objs,worker common)
$(BUILD)/countd-read:   $(call objs,reader common)
$(BUILD)/countd:        $(call objs,common/client common)
$(TESTS): %: %.o $(call objs,tests/lib common)
$(TESTS): LDLIBS += $(TESTLIBS)
$(DAEMONS) $(BUILD)/countd $(TESTS):
	$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
clean:
	rm -rf build
.PHONY: all clean
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
