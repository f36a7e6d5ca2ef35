//go:build desktop && webkit2_41 && cgo

package gtk

/*
#cgo LDFLAGS: -Wl,--as-needed

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct stub { const char *name; void **address; };
extern const struct stub signalbox_gtk_stubs[], signalbox_gtk_stubs_end[];

// What a stub jumps to until its function is known.
void signalbox_gtk_not_loaded(void) {
	fputs("signalbox: a function of GTK was called before gtk.Load\n", stderr);
	abort();
}

// Returns what went wrong, or NULL.
static const char *load(void) {
	static const char library[] = "libwebkit2gtk-4.1.so.0"; // needs all the others
	static char fault[256];
	// Global, as a linked library is: parts that these libraries load later count on their functions.
	if (dlopen(library, RTLD_NOW | RTLD_GLOBAL) == NULL) {
		const char *cause = dlerror();
		return cause != NULL ? cause : "the system gives no reason";
	}
	for (const struct stub *s = signalbox_gtk_stubs; s < signalbox_gtk_stubs_end; s++) {
		void *found = dlsym(RTLD_DEFAULT, s->name); // in the order of a linked program: LD_PRELOAD comes first
		if (found == NULL) {
			snprintf(fault, sizeof fault, "%s: there is no %s in it, nor in what it needs", library, s->name);
			return fault;
		}
		*s->address = found;
	}
	return NULL;
}
*/
import "C"
import "fmt"

// Load loads the libraries. Before it, no function of Wails may be called that reaches GTK; after an error there can be no window.
func Load() error {
	if fault := C.load(); fault != nil {
		return fmt.Errorf("load WebKitGTK, which draws the window: %s (on Debian: apt install libwebkit2gtk-4.1-0)", C.GoString(fault))
	}
	return nil
}
