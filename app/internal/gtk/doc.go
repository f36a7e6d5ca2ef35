// Package gtk brings GTK and WebKit into the process when the first window opens, and not at its start: they are a hundred and eighty
// libraries and half the memory of a program that waits in the tray. Where they are missing, the program runs without a window.
//
// Wails calls them as if they were linked. stubs_linux_amd64.S defines every function that it calls, as a jump to an address that Load
// fills in; with that and --as-needed the linker names none of these libraries in the program. Elsewhere there is nothing to load.
package gtk
