# countd: `make help` lists the targets, each from the line with ## above it.
# SPDX-License-Identifier: BSD-2-Clause
#
# One file, one build folder per mode, nothing written among the sources.
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man
UNITDIR    ?= $(PREFIX)/lib/systemd/system
BASHDIR    ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR     ?= $(PREFIX)/share/zsh/site-functions
DOCDIR     ?= $(PREFIX)/share/doc/countd
INSTALL    ?= install
LDCONFIG   ?= ldconfig
PKG_CONFIG ?= pkg-config
OBJCOPY    ?= objcopy
CLANG      ?= clang
BUILD      ?= build/release
CFLAGS     ?= -O2 -g
FUZZ_SECONDS ?= 30

VERSION := $(shell sed -n 's/^.define COUNTD_VERSION "\(.*\)"/\1/p' common/client/lib/countd.h)

# As many jobs as there are processors, unless make was told.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

# Goals that compile say what to install before the compiler fails for the want
# of it; the others install it by themselves.
ifneq ($(filter-out setup test check lint bench cover faults fuzz mutants demo demo-postgresql deb clean help format,$(or $(MAKECMDGOALS),all)),)
MISSING := $(shell CC='$(CC)' CPPFLAGS='$(CPPFLAGS)' .ci/setup build 2>&1)
$(if $(MISSING),$(error $(MISSING)))
endif

WARN := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wvla -Wundef -Wcast-qual -Wcast-align \
        -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wformat=2 -Wpointer-arith
pc   = $(shell $(PKG_CONFIG) --libs $(1) 2>/dev/null || echo $(2))
override CPPFLAGS += -I. -D_GNU_SOURCE -MMD -MP
override CFLAGS   += -std=c11 -fPIC -fno-semantic-interposition -pthread $(WARN) $(MODE)
# PCRE2 bounds what a regular expression of a Graphite query may take; libc does not.
# libpq knows hosts, TLS, passwords and services as PostgreSQL's users do.
LDLIBS   := -Wl,--as-needed $(call pc,lmdb,-llmdb) $(call pc,zlib,-lz) $(call pc,libpcre2-8,-lpcre2-8) \
            $(call pc,libpq,-lpq) -lm
override CPPFLAGS += $(shell $(PKG_CONFIG) --cflags libpq 2>/dev/null || echo -I/usr/include/postgresql)
CMOCKA   := $(call pc,cmocka,-lcmocka)

# Calls that tests can make fail: the names of tests/lib/fault.c.
WRAP := linkat unlinkat renameat renameat2 mkdirat fchmod fchmodat open openat read write pread pwrite \
        pwritev fdatasync fsync flock ftruncate posix_fallocate futimens fstat fstatat fstatvfs \
        malloc calloc realloc socket bind listen connect accept4 recv send sendmsg \
        epoll_create1 epoll_ctl epoll_wait \
        __openat_2 __open_2 __read_chk __pread_chk __recv_chk clock_unix_ms clock_ns clock_ms

# make V=1 shows whole commands.
Q   := $(if $(V),,@)
say  = $(if $(V),,@printf '%-3s %s\n' $(1) '$(@:$(BUILD)/%=%)';)

# ---- what there is -------------------------------------------------------
# The layers of common/ from the ground up (tests/lib/layers).
LAYERS := $(addprefix common/,base board wire net setup log store store/tree store/history store/lmdb)
# Of those that read a store: countd-write does without libpq.
REMOTE := common/store/postgresql
# The folders of the daemons that have several.
WRITER := writer writer/live writer/quota writer/statsd
READER := reader reader/resp reader/graphite
objs = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1)))
bins = $(patsubst %.c,$(BUILD)/%,$(wildcard $(1)))
part = $(call objs,$(1:%=%/*.c))

PROGS := $(if $(wildcard writer/main.c),$(BUILD)/countd-write) \
         $(if $(wildcard worker/main.c),$(BUILD)/countd-worker) \
         $(if $(wildcard reader/main.c),$(BUILD)/countd-read) \
         $(if $(wildcard common/client/cmd/main.c),$(BUILD)/countd)
SAID  := $(addprefix $(BUILD)/,countd.conf completion.bash completion.zsh countd-metrics.7)
LIBS  := $(if $(wildcard common/client/lib/countd.c),$(addprefix $(BUILD)/,libcountd.a libcountd.so.0 libcountd.pc))
# What the library offers; what it uses itself comes from parts.a.
LIBOBJS := $(call part,common/client/lib common/board)

# Everything but the mains: tests take from it what they call.
PAGE  := $(BUILD)/reader/page_data.o
PARTS := $(PAGE) $(filter-out %/main.o,$(call part,$(LAYERS) $(REMOTE) common/client/lib common/client/cmd $(WRITER) worker $(READER)))
TLIB  := $(call part,tests/lib)
BLIB  := $(filter-out %/fault.o,$(TLIB)) $(filter-out $(BUILD)/tests/bench/bench_%,$(call part,tests/bench))
# The longest first, so that the last one does not run alone.
LONG  := $(call bins,tests/crash/test_worker_calls.c tests/crash/test_kill.c tests/crash/test_powerloss.c \
           tests/e2e/test_drop_command.c)
# A transcript has a program, with tests in C or without.
PLAYS := $(patsubst tests/e2e/%.txt,$(BUILD)/tests/e2e/test_%,$(wildcard tests/e2e/*.txt))
CODED := $(call bins,tests/crash/test_*.c tests/e2e/test_*.c tests/unit/test_*.c)
TESTS := $(LONG) $(filter-out $(LONG),$(sort $(CODED) $(PLAYS)))
BENCH := $(call bins,tests/bench/bench_*.c)
FUZZ  := $(call bins,tests/fuzz/fuzz_*.c)
# Helpers of the crash tests: a preload library and small stand-in programs.
PRELOAD := $(if $(wildcard tests/crash/powerloss.c),$(BUILD)/tests/crash/powerloss.so $(BUILD)/tests/crash/clock_shift.so)
# Small programs of users: they have the library and its headers, no more.
EXAMPLE := $(call bins,tests/e2e/example_*.c)
MAN   := $(BUILD)/countd-metrics.7 $(wildcard */*.[13578] common/*/*.[13578] common/client/*/*.[13578])
UNITS := $(wildcard */*.service common/*/*.target)

## make                   programs and libraries into build/release; installs nothing
all: $(PROGS) $(LIBS) $(SAID)

# ---- programs ------------------------------------------------------------
$(BUILD)/countd-write:  $(call part,$(WRITER) $(LAYERS))
$(BUILD)/countd-worker: $(call part,worker $(LAYERS) $(REMOTE))
$(BUILD)/countd-read:   $(PAGE) $(call part,$(READER) $(LAYERS) $(REMOTE))
$(BUILD)/countd:        $(call part,common/client/cmd common/client/lib $(LAYERS) $(REMOTE))
$(PROGS):
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o,$^) $(LDLIBS) -o $@

# The page of countd-read, also packed, and the hashes of its script and style.
$(BUILD)/reader/page.gz: reader/page.html
	@mkdir -p $(@D)
	$(call say,GZ)gzip -9nc $< > $@
$(BUILD)/reader/page.policy: reader/page.html reader/page_policy
	@mkdir -p $(@D)
	$(call say,CSP)reader/page_policy $< > $@
$(PAGE): reader/page_data.S $(BUILD)/reader/page.gz $(BUILD)/reader/page.policy
	$(call say,AS)$(CC) $(CFLAGS) -DPAGE_PACKED='"$(BUILD)/reader/page.gz"' \
	  -DPAGE_POLICY='"$(BUILD)/reader/page.policy"' -c $< -o $@

# ---- libcountd -----------------------------------------------------------
# One object in which only countd_* is global, so that no name of ours can meet
# one of the program's.
$(BUILD)/libcountd.o: $(LIBOBJS) $(BUILD)/parts.a
	$(call say,LD)$(CC) $(filter-out -pthread,$(CFLAGS)) -r -nostdlib $^ -o $@
	$(Q)$(OBJCOPY) --wildcard --keep-global-symbol='countd_*' $@
$(BUILD)/libcountd.a: $(BUILD)/libcountd.o
	$(Q)rm -f $@
	$(call say,AR)$(AR) rcs $@ $^
$(BUILD)/libcountd.so.0: $(BUILD)/libcountd.o
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-z,defs -Wl,-soname,libcountd.so.0 $^ -o $@
	$(Q)ln -sf libcountd.so.0 $(BUILD)/libcountd.so
$(BUILD)/libcountd.pc: common/client/lib/countd.h Makefile
	@mkdir -p $(@D)
	$(Q)printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$(INCLUDEDIR)' '' \
	  'Name: libcountd' 'Description: count things in countd, and read the counts' \
	  'Version: $(VERSION)' 'Libs: -L$${libdir} -lcountd' 'Libs.private: -pthread' \
	  'Cflags: -I$${includedir}' > $@

# ---- what the programs say of themselves ----------------------------------
# A sample of the settings, each a comment with its default, from the help; those
# that people change stand first.
CHANGED := data_dir user http.listen read.http resp.listen statsd.listen graphite.listen http.allow read.allow \
           http.tokens history archive.keep
$(BUILD)/countd.conf: $(BUILD)/countd-write
	$(Q)COUNTD_CONF= $< -h | awk -v changed='$(CHANGED)' 'BEGIN { \
	    print "# Settings of countd-write, countd-worker, countd-read and countd, which look for"; \
	    print "# this file as /etc/countd.conf. A line with # shows a default: take the # away to"; \
	    print "# change it, and restart the daemons. Few need those below \"the others\". countd(5)"; \
	    print "# says more." } \
	  /^Settings/ { on = 1; next } \
	  on && /^  [a-z]/ { key = $$1; sub(/^ *[^ ]+ +/, ""); help = $$0; next } \
	  on && /; default / { def = $$0; sub(/.*; default /, "", def); sub(/; default .*/, ""); sub(/^ +/, ""); \
	    order[++n] = key; \
	    text[key] = "\n# " toupper(substr(help, 1, 1)) substr(help, 2) ".\n# " toupper(substr($$0, 1, 1)) \
	      substr($$0, 2) ".\n#" key " =" (def == "empty" ? "" : " " def) } \
	  END { count = split(changed, first, " "); \
	    for (i = 1; i <= count; i++) { if (!(first[i] in text)) exit 1; print text[first[i]]; delete text[first[i]] } \
	    print "\n# ---- the others"; \
	    for (i = 1; i <= n; i++) if (order[i] in text) print text[order[i]] }' > $@
$(BUILD)/completion.%: $(BUILD)/countd
	$(Q)$< completion $* > $@

# The manual of figures: its lists are the rows of figures.def.
$(BUILD)/countd-metrics.7: common/setup/figures.def common/setup/countd-metrics.7.in
	@mkdir -p $(@D)
	$(Q)awk '/^FIGURE\(/ { kind = $$1; sub(/FIGURE\(/, "", kind); row = ""; on = 1 } \
	  on { row = row $$0 } \
	  on && /\)$$/ { on = 0; split(row, f, "\""); \
	    label = match(row, /\.label = "[^"]+/) ? substr(row, RSTART + 10, RLENGTH - 10) : ""; \
	    if (sub(/=/, "=\\(dq", label)) label = "{" label "\\(dq}"; \
	    alert = match(row, /\.alert = "[^"]+/) ? "; alert\n.Li " substr(row, RSTART + 10, RLENGTH - 10) : ""; \
	    list[kind] = list[kind] ".It Ql " (kind == "SCRAPE," ? "" : f[2] " , Ql ") f[4] label "\n" f[6] alert "\n" } \
	  FNR == NR { next } \
	  /FIGURES/ { printf "%s", list[$$3 ","]; next } { print }' $^ > $@

# ---- tests ---------------------------------------------------------------
# A program takes from the archives what it calls.  They are made afresh: a
# member whose source has gone must go too.
$(BUILD)/parts.a: $(PARTS)
$(BUILD)/testlib.a: $(TLIB)
$(BUILD)/benchlib.a: $(BLIB)
$(addprefix $(BUILD)/,parts.a testlib.a benchlib.a):
	@rm -f $@
	$(call say,AR)$(AR) rcsT $@ $^
group = -Wl,--start-group $(filter %.a,$^) -Wl,--end-group
# -u: what the compiler adds for coverage calls malloc, too.
$(CODED): %: %.o
$(PLAYS): $(BUILD)/tests/e2e/transcript.o
$(TESTS): $(BUILD)/testlib.a $(BUILD)/parts.a
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) $(WRAP:%=-Wl,--wrap=%) -Wl,-u,__wrap_malloc $(filter %.o,$^) $(group) $(CMOCKA) $(LDLIBS) -o $@
$(BENCH): %: %.o $(BUILD)/benchlib.a $(BUILD)/parts.a
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) $< $(group) $(CMOCKA) $(LDLIBS) -o $@
$(FUZZ): %: %.o $(BUILD)/tests/fuzz/replay.o $(BUILD)/tests/lib/checks.o $(BUILD)/parts.a
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) $(filter %.o %.a,$^) $(LDLIBS) -o $@
$(EXAMPLE): %: %.o $(BUILD)/libcountd.a
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@
$(EXAMPLE:=.o): override CPPFLAGS += -Icommon/board -Icommon/client/lib
$(PRELOAD): $(BUILD)/%.so: %.c
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(CPPFLAGS) $(filter-out -fsanitize% -fno-sanitize% --coverage,$(CFLAGS)) -shared $< -o $@
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

# Packages first, in a make of their own: they change what is found above.
## make test              every test, crash tests too, with a summary (installs what they need)
test: setup
	+@$(MAKE) --no-print-directory run-tests
setup:
	@.ci/setup test
test-programs: all $(TESTS) $(FUZZ) $(PRELOAD) $(EXAMPLE)
bench-programs: $(BENCH)
## make test-at AT='2028-02-29 23:58'           the same, at that time
test-at: setup
	+@$(MAKE) --no-print-directory test-programs
	@BUILD=$(abspath $(BUILD)) CLOCK_SHIFT=$$(($$(date -d '$(AT)' +%s) - $$(date +%s))) \
	  LD_PRELOAD=$(abspath $(BUILD)/tests/crash/clock_shift.so) tests/lib/run $(TESTS) $(FUZZ)
## make run-tests TESTS=build/release/tests/unit/test_log FUZZ=     one test
run-tests: test-programs
	@BUILD=$(abspath $(BUILD)) tests/lib/run $(TESTS) $(FUZZ)

bench demo demo-postgresql faults: export COUNTD_CONF =
## make bench             measures speed beside other programs; no verdict
# Every row of all benches, as a table; at the end those that fall short.
bench: all $(BENCH)
	@rm -f build/bench.tsv
	@for b in $(BENCH); do echo "== $${b##*/}"; \
	  BENCH_TABLE=$(abspath build/bench.tsv) BUILD=$(abspath $(BUILD)) $$b $(BENCH_FLAGS) || exit 1; done
	@awk -F '\t' 'BEGIN { OFS = " | "; print "| row", "countd", "beside", "it", "ratio", "goal", "reached |"; \
	  print "|---|---|---|---|---|---|---|" } { $$1 = "| " $$1; $$7 = $$7 " |"; print }' build/bench.tsv >build/bench.md
	@echo; echo 'build/bench.md has the table; goals that are not reached:'
	@awk -F '\t' '$$7 == "no" { printf "  %-42s %6s of %s, goal %s\n", $$1, $$5, $$3, $$6; n++ } \
	  END { if (!n) print "  none" }' build/bench.tsv

# ---- everything that can be checked --------------------------------------
# Instrumented code confuses what gcc knows of value ranges: that warning is an
# error in the plain build only.
ASAN := -Werror -Wno-format-truncation -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
TSAN := -Werror -Wno-format-truncation -fsanitize=thread
# What runs more than one thread in one process: the writer, users of libcountd,
# and tests with a server of their own.  Each must be there.
TSAN_TESTS ?= $(patsubst %,tests/%.c,unit/test_merge_lanes unit/test_logs unit/test_ingest unit/test_ingest_replies \
  unit/test_ingest_stop unit/test_sequence e2e/test_write_limits e2e/test_write_stop \
  unit/test_client unit/test_group_commit unit/test_client_live unit/test_board_race \
  unit/test_quotas unit/test_quota_service unit/test_quota_disk \
  e2e/test_write e2e/test_system e2e/test_counter_protocol \
  e2e/test_sequence_http e2e/test_quota e2e/test_status_command)

## make check             linters, gcc and clang with -Werror, all tests under sanitizers
check: setup
	+@$(MAKE) --no-print-directory lint
	+@$(MAKE) --no-print-directory test-programs bench-programs BUILD=build/werror MODE=-Werror
	+@$(MAKE) --no-print-directory test-programs BUILD=build/clang CC=$(CLANG) MODE=-Werror
	+@TEST_PEERS=1 TEST_SLOW=4 $(MAKE) --no-print-directory run-tests BUILD=build/asan CFLAGS='-O1 -g' MODE='$(ASAN)'
	+@$(if $(TSAN_TESTS),TEST_SLOW=4 $(MAKE) --no-print-directory run-tests BUILD=build/tsan CFLAGS='-O1 -g' \
	  MODE='$(TSAN)' TESTS='$(TSAN_TESTS:%.c=build/tsan/%)' FUZZ=)

C_FILES := $(wildcard common/*/*.[ch] common/*/*/*.[ch] common/*/*/*/*.[ch] writer/*.[ch] writer/*/*.[ch] worker/*.[ch] reader/*.[ch] reader/*/*.[ch] tests/*/*.[ch])
LINTS := lint-format lint-headers lint-layers lint-figures lint-names lint-cppcheck lint-tidy lint-man lint-shell lint-mutants lint-deb
## make lint              only the linters
lint: setup
	@.ci/setup check
	+@$(MAKE) --no-print-directory -k $(LINTS)
## make format            formats the C files that differ from the last commit
format:
	@git diff --name-only --diff-filter=d HEAD -- '*.[ch]' | xargs -r clang-format -i
lint-format:
	@echo clang-format
	@clang-format --dry-run -Werror $(C_FILES)
	@! grep -nE '^ \*.*[a-z;] [0-9][0-9+*n]* {2,}[0-9][0-9*n]* {2,}' $(C_FILES) || \
	  { echo 'a row of a table of offsets begins in mid-line: the table was filled as a paragraph' >&2; exit 1; }
# Each header stands alone.
lint-headers:
	@echo headers
	@for h in $(filter %.h,$(C_FILES)); do printf '#include "%s"\nextern int stands_alone;\n' "$$h" | \
	  $(CC) $(filter-out -MMD -MP,$(CPPFLAGS)) -std=c11 $(WARN) -Werror -fsyntax-only -x c - || exit 1; done
lint-layers:
	@echo layers
	@tests/lib/layers
lint-figures:
	@echo figures
	@tests/lib/figures
lint-names:
	@echo names
	@tests/lib/names
lint-cppcheck:
	@echo cppcheck
	@cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	  --suppress=missingIncludeSystem --suppress=unusedStructMember -D_GNU_SOURCE -I. \
	  common writer worker reader
lint-tidy:
	@echo clang-tidy
	@printf '%s\n' $(filter-out tests/%,$(filter %.c,$(C_FILES))) | xargs -P $$(nproc) -n 4 sh -c \
	  'clang-tidy --quiet --warnings-as-errors="*" "$$@" -- -std=c11 -D_GNU_SOURCE -I. -I/usr/include/postgresql 2>/dev/null' clang-tidy
lint-man: $(BUILD)/countd-metrics.7
	@echo mandoc
	@$(if $(MAN),mandoc -T lint -W warning $(MAN))
lint-deb: deb
	@echo lintian
	@lintian --fail-on error,warning $(BUILD)/deb/*.deb
	@cd $(BUILD)/deb/countd/usr/share/doc/countd && for l in $$(cat *.md | grep -oE '\]\([^):#]+' | cut -c 3-); do \
	  test -e "$$l" || { echo "a link to $$l, which the package lacks" >&2; exit 1; }; done
# Planted bugs follow the code that they are planted in.
lint-mutants:
	@echo mutants
	@for p in tests/mutants/*.patch; do patch -sfp1 --dry-run <$$p >/dev/null || { echo "$$p does not apply" >&2; exit 1; }; done
lint-shell:
	@for f in .ci/run .ci/setup tests/lib/run tests/lib/mutants tests/lib/layers tests/lib/figures tests/lib/names tests/demo.sh tests/demo_postgresql.sh tests/faults_patroni.sh tests/lib/demo.sh .packaging/deb reader/page_policy; do sh -n $$f || exit 1; done

## make cover             coverage of the tests
# As root some tests fail here: a daemon that became another user cannot write
# its counts, and gcov says so into its output.
cover: setup
	@.ci/setup cover
	+@TEST_COVER=1 TEST_SLOW=2 $(MAKE) --no-print-directory run-tests BUILD=build/cover CFLAGS='-O0 -g' MODE=--coverage; \
	  rc=$$?; gcovr -r . -e tests --object-directory build/cover; exit $$rc

## make fuzz              libFuzzer from the corpora; FUZZ_SECONDS=30 for each parser
# New findings stay in build/fuzz.
fuzz: setup
	@.ci/setup fuzz
	+@$(MAKE) --no-print-directory fuzz-run BUILD=build/fuzz CC=$(CLANG) CFLAGS='-O1 -g' \
	  MODE='-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all'
LIBFUZZ = $(FUZZ:=.lib)
$(LIBFUZZ): %.lib: %.o $(BUILD)/tests/lib/checks.o $(BUILD)/parts.a
	$(call say,LD)$(CC) $(CFLAGS) $(LDFLAGS) -fsanitize=fuzzer $(filter %.o %.a,$^) $(LDLIBS) -o $@
fuzz-run: $(LIBFUZZ)
	@for f in $^; do n=$${f##*/fuzz_}; n=$${n%.lib}; log=$(BUILD)/$$n.log; mkdir -p $(BUILD)/new/$$n; \
	  $$f -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -artifact_prefix=$(BUILD)/new/$$n- \
	    $(BUILD)/new/$$n $(wildcard tests/fuzz/corpus)/$$n >$$log 2>&1 || { tail -n 60 $$log; exit 1; }; \
	  awk -v n=$$n '/number_of_executed/ { e = $$2 } /DONE/ { sub(/.*DONE */, ""); d = $$0 } \
	    END { printf "%-10s %d runs, no finding; %s\n", n, e, d }' $$log; done

## make mutants           plants the bugs of tests/mutants, which the tests must find
mutants: setup
	@tests/lib/mutants $(MUTANTS)

## make faults            a database dies, fails over, is away; OUTAGE=60 seconds each, PATRONI=10 rounds
# FAULTS=KILLS,FAILOVERS: by hand, at any point.
FAULTS ?= 100,20
OUTAGE ?= 60
PATRONI ?= 10
DB_FAULTS := $(addprefix $(BUILD)/tests/crash/test_postgresql_,faults outage)
faults: setup
	-@.ci/setup faults
	+@$(MAKE) --no-print-directory all $(DB_FAULTS)
	@for t in $(DB_FAULTS); do \
	  COUNTD_FAULTS=$(FAULTS) COUNTD_OUTAGE=$(OUTAGE) BUILD=$(abspath $(BUILD)) timeout -k 5 3600 $$t || exit 1; done
	@timeout -k 60 3600 tests/faults_patroni.sh $(BUILD) $(PATRONI)

## make demo              counts words and shows the top, on a temporary directory
demo:
	@.ci/setup demo
	+@$(MAKE) --no-print-directory all
	@tests/demo.sh $(BUILD)
## make demo-postgresql   two machines count into a PostgreSQL that fails over
demo-postgresql: setup
	+@$(MAKE) --no-print-directory all
	@tests/demo_postgresql.sh $(BUILD)

# ---- install -------------------------------------------------------------
man = $(filter %.$(1),$(MAN))
## make install           PREFIX=/usr/local, DESTDIR=; make uninstall
install: all
	$(INSTALL) -d $(addprefix $(DESTDIR),$(BINDIR) $(LIBDIR)/pkgconfig $(INCLUDEDIR) \
	  $(MANDIR)/man1 $(MANDIR)/man3 $(MANDIR)/man5 $(MANDIR)/man7 $(MANDIR)/man8 $(UNITDIR) $(BASHDIR) $(ZSHDIR) $(DOCDIR))
	$(INSTALL) -m 644 $(BUILD)/countd.conf $(DESTDIR)$(DOCDIR)
	$(INSTALL) -m 644 $(BUILD)/completion.bash $(DESTDIR)$(BASHDIR)/countd
	$(INSTALL) -m 644 $(BUILD)/completion.zsh $(DESTDIR)$(ZSHDIR)/_countd
	$(INSTALL) $(PROGS) $(DESTDIR)$(BINDIR)
	$(INSTALL) -m 644 $(BUILD)/libcountd.a $(DESTDIR)$(LIBDIR)
	$(INSTALL) -m 755 $(BUILD)/libcountd.so.0 $(DESTDIR)$(LIBDIR)
	ln -sf libcountd.so.0 $(DESTDIR)$(LIBDIR)/libcountd.so
	$(MAKE) --no-print-directory -B $(BUILD)/libcountd.pc PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) INCLUDEDIR=$(INCLUDEDIR)
	$(INSTALL) -m 644 $(BUILD)/libcountd.pc $(DESTDIR)$(LIBDIR)/pkgconfig
	$(INSTALL) -m 644 common/client/lib/countd.h common/board/countd_board.h $(DESTDIR)$(INCLUDEDIR)
	$(foreach s,1 3 5 7 8,$(if $(call man,$(s)),$(INSTALL) -m 644 $(call man,$(s)) $(DESTDIR)$(MANDIR)/man$(s);))
	ln -sf countd.5 $(DESTDIR)$(MANDIR)/man5/countd.conf.5
	$(foreach u,$(UNITS),sed 's|@BINDIR@|$(BINDIR)|' $(u) > $(BUILD)/$(notdir $(u)) && \
	  $(INSTALL) -m 644 $(BUILD)/$(notdir $(u)) $(DESTDIR)$(UNITDIR) &&) true
	$(INSTALL) -d $(DESTDIR)$(DOCDIR)/data
	sed -E 's,\[([^]]*)\]\((common|reader|tests|writer)/[^)]*\),\1,g' README.md > $(BUILD)/README.md # no links to the sources
	$(INSTALL) -m 644 $(BUILD)/README.md CHANGELOG.md LICENSE reader/alerts.yml reader/grafana.json $(DESTDIR)$(DOCDIR)
	$(INSTALL) -m 644 data/FORMAT.md data/page.png data/sample.tsv.gz $(DESTDIR)$(DOCDIR)/data
	$(if $(DESTDIR),,$(LDCONFIG) || true) # only root may; LD_LIBRARY_PATH does without
uninstall:
	rm -f $(addprefix $(DESTDIR)$(BINDIR)/,countd countd-write countd-worker countd-read) \
	  $(addprefix $(DESTDIR)$(LIBDIR)/,libcountd.a libcountd.so libcountd.so.0 pkgconfig/libcountd.pc) \
	  $(addprefix $(DESTDIR),$(MANDIR)/man5/countd.conf.5 $(addprefix $(DOCDIR)/,countd.conf README.md CHANGELOG.md LICENSE alerts.yml grafana.json data/FORMAT.md data/page.png data/sample.tsv.gz) $(BASHDIR)/countd $(ZSHDIR)/_countd) \
	  $(addprefix $(DESTDIR)$(INCLUDEDIR)/,countd.h countd_board.h) $(addprefix $(DESTDIR)$(UNITDIR)/,$(notdir $(UNITS))) \
	  $(foreach s,1 3 5 7 8,$(addprefix $(DESTDIR)$(MANDIR)/man$(s)/,$(notdir $(call man,$(s)))))
## make deb               Debian packages into build/release/deb
# .packaging/deb says which.
deb:
	@.ci/setup deb
	+@$(MAKE) --no-print-directory all
	+@.packaging/deb $(BUILD) $(VERSION)
## make clean             removes build/
clean:
	rm -rf build
help:
	@sed -n 's/^## //p' Makefile

.PHONY: $(LINTS) all help format test test-at setup test-programs bench-programs run-tests bench check lint cover faults fuzz fuzz-run mutants demo demo-postgresql install \
        uninstall deb clean
.SECONDARY:
.DELETE_ON_ERROR:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
