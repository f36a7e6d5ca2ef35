package app

import "signalbox/app/tray"

// Desktop is what the page may do with the desktop, for the server's /desktop/ endpoints. All of it may be called before Run, too.
type Desktop struct {
	Open func(address string) error // opens an http, https or mailto address with the user's program for it
	Show func() error               // brings the window to the front
	Quit func() error               // ends Signalbox: the only way out where there is neither tray nor window
	Info func() Info

	// Folder asks for a folder with the desktop's own dialog, "" when none was chosen. ErrNoWindow where there is no window.
	Folder func(title string) (path string, err error)

	// Dropped is the path of what was just dropped on the window; "" where nothing was, or the desktop does not tell.
	Dropped func() (path string)
}

// Info tells what the desktop offers.
type Info struct {
	Window bool   `json:"window"`         // there is a window, or can be
	Tray   string `json:"tray"`           // "shown", "missing" or "none"
	Note   string `json:"note,omitempty"` // a sentence, where something is missing
}

// Desktop returns what the server may call.
func (a *App) Desktop() Desktop {
	return Desktop{
		Open: a.Open,
		Show: a.Show,
		Quit: func() error { a.Quit(); return nil },
		Info: a.info,

		Folder: a.folder, Dropped: a.droppedPath,
	}
}

func (a *App) info() Info {
	host := a.host()
	a.mu.Lock()
	windowErr := a.windowErr
	a.mu.Unlock()
	info := Info{Window: windowErr == nil && hasWindow, Tray: string(host)}
	switch {
	case !info.Window && windowErr != nil && host == tray.Shown:
		info.Note = "Signalbox cannot open its own window here (" + windowErr.Error() + ") and shows this page in the browser instead."
	case !info.Window && windowErr != nil:
		info.Note = "Signalbox can open neither a window (" + windowErr.Error() + ") nor a tray icon here: quit it from this page."
	case info.Window && host == tray.Missing:
		info.Note = "Nothing shows tray icons on this desktop: closing the window quits Signalbox."
	case info.Window && host == tray.None:
		info.Note = "This session has no tray: closing the window quits Signalbox."
	}
	return info
}
