import './app.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { settings } from './lib/state/settings.svelte';

// The one-time code of the first address must not stay in the history, should a listener ever leave it there.
if (location.search) history.replaceState(null, '', location.pathname + location.hash);

// The theme is kept by the listener; a short wait for it avoids a flash of the other one.
await Promise.race([settings.load(), new Promise((resolve) => setTimeout(resolve, 400))]);
mount(App, { target: document.getElementById('app')! });
