# Signalbox: everything from a fresh clone on. `make help` lists it.
#
# Every step says what it does, costs nothing when there is nothing to do, and if it fails says which one it was and what to do.
# All paths are relative to this folder, so its own path may hold spaces and any letters.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules --no-print-directory

STEP := build/step.sh
PYTHON := build/cache/model-tools/bin/python
BIN := build/bin
COUNTS := build/cache/counts
LDFLAGS := -s -w

# One set of flags for the programs, for vet and for the tests without the race detector: what one compiles the others find in Go's
# cache. Without that a first run compiles SQLite and all else twice as often.
NATIVE := env CGO_ENABLED=0 GOFLAGS=-trimpath
WINDOW := env CGO_ENABLED=1 GOFLAGS=-trimpath
WINDOWS := env CGO_ENABLED=0 GOFLAGS=-trimpath GOOS=windows GOARCH=amd64

# The window needs Wails' tags; without them the same program has no window, and needs neither cgo nor GTK.
DESKTOP_TAGS := desktop,production,webkit2_41
WINDOWS_TAGS := desktop,production

# What the window is made from. A folder's own time changes when a file in it goes.
FRONTEND := $(shell find frontend/src frontend/public -print 2>/dev/null) $(wildcard frontend/*.html frontend/*.ts frontend/*.js frontend/*.json)

# Packages whose tests run a real model: too slow, and for the native part of no use, under the race detector.
HEAVY := ^signalbox/internal/(generate|openvino|xgrammar)$$

.PHONY: help run dev build windows test check e2e bench golden setup clean distclean \
	tools model-tools system system-test frontend-modules runtime runtime-windows models \
	frontend desktop headless test-frontend test-go test-race test-heavy test-e2e test-program test-desktop test-browser test-wine test-clients vet resources

help: ## this list
	@echo "make TARGET, where TARGET is one of"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile

## ---- what people call

run: setup desktop ## install what is missing, build, start the app
	@if [ -n "$${DISPLAY:-}$${WAYLAND_DISPLAY:-}" ]; then exec $(BIN)/signalbox; fi; \
	echo "There is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set): starting the server alone. Ctrl-C ends it."; \
	exec $(BIN)/signalbox serve

dev: setup headless ## server without a window, and the page with live reload
	@echo "==> the server, and the page on the address that Vite prints; Ctrl-C ends both"
	@trap 'kill 0' EXIT; $(BIN)/signalbox-headless serve & cd frontend && npm run dev

build: frontend desktop headless windows ## the programs: build/bin/signalbox, signalbox-headless, *.exe

windows: frontend ## cross-compile the Windows programs (no cgo)
	@$(STEP) "build the Windows programs" "read the compiler's message above" \
		$(WINDOWS) go build -ldflags "$(LDFLAGS)" -o $(BIN)/signalbox.exe .
	@$(STEP) "build the Windows desktop program" "read the compiler's message above" \
		$(WINDOWS) go build -tags $(WINDOWS_TAGS) -ldflags "$(LDFLAGS) -H windowsgui" -o $(BIN)/signalbox-desktop.exe .

test: ## set up what tests need, build, run every test
	@mkdir -p build/cache && rm -f $(COUNTS)
	@$(MAKE) system-test setup runtime-windows build vet test-frontend test-race test-heavy test-e2e
	@$(MAKE) test-clients CLIENTS=$(or $(CLIENTS),sdks)
	@echo "==> all tests"; $(NATIVE) go run ./build/tools/gotest -sum $(COUNTS)

check: ## every test, and the agents (CI runs test)
	@$(MAKE) test CLIENTS=all

e2e: setup system-test runtime-windows build test-e2e ## only the tests of the built programs

bench: setup headless ## speed and memory beside OpenVINO GenAI and llama.cpp, in turns (on a quiet machine)
	@$(STEP) "tools for the benchmark" "see whether Python's package index can be reached, then run this again" build/bench/setup.sh
	@$(STEP) "benchmark" "read the message above" go run ./build/bench

golden: ## rewrite the golden files; look at the difference
	@$(STEP) "golden files" "read the message above" go test ./backend/ollama ./backend/openai ./backend/anthropic ./backend/connect ./backend/server -update

setup: tools system frontend-modules runtime models ## install what is missing: packages, modules, runtime, models

clean: ## remove what was built, keep downloads
	rm -rf $(BIN)/signalbox* frontend/dist/assets frontend/dist/index.html build/cache/logs

distclean: clean ## remove downloads, the runtime and the models too
	rm -rf $(BIN) build/cache frontend/node_modules

## ---- set-up

tools:
	@build/check-tools.sh

system:
	@$(STEP) "system packages" "see above" build/setup-system.sh

system-test:
	@$(STEP) "system packages for the tests" "see above" build/setup-system.sh test

frontend-modules: frontend/node_modules/.package-lock.json

# npm writes this file when it has installed everything.
frontend/node_modules/.package-lock.json: frontend/package-lock.json
	@$(STEP) "npm modules" "if it says that the lock file is out of sync, run npm install in frontend/; else see whether npm's registry can be reached (npm ping)" \
		npm --prefix frontend ci --no-audit --no-fund --loglevel=error
	@touch $@

runtime: model-tools
	@$(STEP) "native runtime" "see whether Python's package index can be reached, then run this again" \
		$(NATIVE) go run ./build/tools/runtime fetch -python $(PYTHON)

runtime-windows: model-tools
	@$(STEP) "native runtime for Windows" "see whether Python's package index can be reached, then run this again" \
		$(NATIVE) go run ./build/tools/runtime fetch -python $(PYTHON) -target windows-amd64

model-tools:
	@$(STEP) "tools that make the models" "see above" python3 build/models/setup.py tools

models:
	@$(STEP) "starter models" "see above" python3 build/models/setup.py

## ---- build

frontend: frontend/dist/index.html

frontend/dist/index.html: frontend/node_modules/.package-lock.json $(FRONTEND)
	@$(STEP) "build the window's page" "read Vite's message above" npm --prefix frontend run build --silent -- --logLevel warn
	@touch $@

# Icon, version and manifest of the Windows programs; go build takes the .syso file by its name. Run after a change of the icon.
resources:
	@$(STEP) "icon and manifest for Windows" "read the message above" \
		go run github.com/tc-hib/go-winres@v0.3.3 simply --arch amd64 --out rsrc --icon build/appicon.png --manifest gui \
		--product-name Signalbox --file-description "Signalbox" --product-version 0.1.0.0 --file-version 0.1.0.0 \
		--original-filename signalbox.exe

desktop: frontend
	@$(STEP) "build the program (the first time takes minutes)" \
		"read the compiler's message above; if it is about gtk or webkit, run build/setup-system.sh" \
		$(WINDOW) go build -tags $(DESKTOP_TAGS) -ldflags "$(LDFLAGS)" -o $(BIN)/signalbox .

headless: frontend
	@$(STEP) "build the program without a window" "read the compiler's message above" \
		$(NATIVE) go build -ldflags "$(LDFLAGS)" -o $(BIN)/signalbox-headless .

## ---- tests

vet:
	@$(STEP) "go vet" "correct what it names" $(NATIVE) go vet -tags wine_e2e ./...
	@$(STEP) "go vet, with the window" "correct what it names" $(WINDOW) go vet -tags $(DESKTOP_TAGS),desktop_e2e ./...
	@$(STEP) "go vet, for Windows" "correct what it names" $(WINDOWS) go vet -tags $(WINDOWS_TAGS) ./...

test-frontend: frontend-modules
	@$(STEP) "check the window's page" "correct what it names" npm --prefix frontend run check --silent
	@$(STEP) "test the window's page" "look at the failed test above" npm --prefix frontend test --silent

test-go: test-race test-heavy

test-race:
	@$(STEP) "go test, with the race detector" "look at the failed test above; go test -race -run NAME ./PACKAGE runs it alone" \
		env CGO_ENABLED=1 go run ./build/tools/gotest -counts $(COUNTS) -race -timeout 10m $$(go list ./... | grep -vE '$(HEAVY)|^signalbox/internal/e2e$$')

test-heavy:
	@$(STEP) "go test, with real models" "look at the failed test above; go test -run NAME ./PACKAGE runs it alone" \
		$(NATIVE) go run ./build/tools/gotest -counts $(COUNTS) -timeout 15m $$(go list ./... | grep -E '$(HEAVY)')

# The built programs, as people use them. Each group runs alone too, once `make setup build` was run.
test-e2e: test-program test-desktop test-browser test-wine

test-program: # the program without a window: commands, server, engine, and what must not get in or out
	@$(STEP) "test the built program" "look at the failed test above; go test -run NAME ./internal/e2e runs it alone" \
		go run ./build/tools/gotest -counts $(COUNTS) -count=1 -timeout 20m ./internal/e2e

test-desktop: # window and tray under Xvfb, real WebKitGTK
	@$(STEP) "test the desktop program" "look at the failed test above; make test-desktop runs these alone" \
		env SIGNALBOX_BIN="$$PWD/$(BIN)/signalbox" go run ./build/tools/gotest -counts $(COUNTS) -tags desktop_e2e -count=1 -timeout 10m ./app
	@$(STEP) "test the tray on devices that do as told" "look at the failed test above; make test-desktop runs these alone" \
		go run ./build/tools/gotest -counts $(COUNTS) -tags desktop_e2e -count=1 -timeout 10m -run TestTrayFollowsTheDevices ./app

test-browser: # the page in Chromium
	@$(STEP) "test the page in a browser" "look at the failed test above; make test-browser runs these alone" \
		npm --prefix frontend run e2e --silent

# Real clients, offline in a network namespace, on the fake and on the real engine: SDKs, tools, and schemathesis with the server's
# own description. The agents (2 GB) run too where CLIENTS=all asks for them, or where they were installed before and nothing asks.
AGENTS := $(wildcard build/cache/clients/large/package-lock.installed)
test-clients: headless ## real SDKs against the built program (in make test); CLIENTS=all: agents too
	@$(STEP) "test real clients" "look at the failed client above; test/clients/run.py --only NAME runs one" \
		python3 test/clients/run.py --binary $(BIN)/signalbox-headless --cache build/cache/clients --counts $(COUNTS) \
		$(if $(filter all,$(or $(CLIENTS),$(and $(AGENTS),all))),--large)

# -exec takes a command line, so a path with spaces is quoted inside.
test-wine: # the Windows program under Wine
	@$(STEP) "test the Windows runtime under Wine" "look at the failed test above; make test-wine runs these alone" \
		$(WINDOWS) go test -exec "'$$PWD/build/wine/run.sh'" -run 'ThisMachine|EveryLocked|WidelyWritable' ./internal/runtime
	@$(STEP) "test what is called in C++ under Wine" "look at the failed test above; make test-wine runs these alone" \
		$(WINDOWS) go test -exec "'$$PWD/build/wine/run.sh'" -run Paged ./internal/openvino
	@$(STEP) "test grammars under Wine" "look at the failed test above; make test-wine runs these alone" \
		$(WINDOWS) go test -exec "'$$PWD/build/wine/run.sh'" -skip MissingLibraries ./internal/xgrammar
	@$(STEP) "test the Windows program under Wine" "look at the failed test above; make test-wine runs these alone" \
		go run ./build/tools/gotest -counts $(COUNTS) -tags wine_e2e -count=1 -timeout 10m -run WindowsProgram ./internal/e2e
