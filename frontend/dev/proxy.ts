import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Plugin } from 'vite';

const listenerPaths = /^\/(?:ui\/(?:status|events|requests|server|settings|chats)|desktop|api|v1)(?:[/?]|$)/;

/**
 * Lets the development page talk to a running Signalbox (found by its instance file, so that it may be restarted), or to
 * UI=http://127.0.0.1:5199, the mock. It speaks as a program with the owner's token does, so it must not lend that to other
 * pages: what another origin asks is refused here.
 */
export function listenerProxy(): Plugin {
  return {
    name: 'signalbox-listener',
    configureServer(server) {
      server.middlewares.use((req, res, next) => {
        if (!listenerPaths.test(req.url ?? '')) return next();
        const refuse = (status: number, error: string) => {
          res.writeHead(status, { 'Content-Type': 'application/json' });
          res.end(JSON.stringify({ error }));
        };
        const { origin, host } = req.headers;
        if (origin && origin !== `http://${host}`)
          return refuse(403, 'another page may not use the development server');
        const to = listener();
        if (!to) return refuse(502, 'no Signalbox is running: start one with "signalbox serve", or set UI to the mock');
        const headers = {
          ...req.headers,
          host: to.url.host,
          ...(to.token ? { authorization: `Bearer ${to.token}` } : {}),
        };
        for (const name of Object.keys(headers)) {
          if (name === 'origin' || name === 'cookie' || name.startsWith('sec-')) delete headers[name as 'origin'];
        }
        const forward = request(new URL(req.url ?? '/', to.url), { method: req.method, headers }, (answer) => {
          res.writeHead(answer.statusCode ?? 502, answer.headers);
          res.flushHeaders();
          answer.pipe(res);
        });
        forward.on('error', (err) =>
          res.headersSent ? res.destroy() : refuse(502, `the listener does not answer: ${err.message}`),
        );
        res.on('close', () => forward.destroy());
        req.pipe(forward);
      });
    },
  };
}

function listener(): { url: URL; token?: string } | undefined {
  if (process.env.UI) return { url: new URL(process.env.UI) };
  const state =
    process.env.SIGNALBOX_HOME ?? join(process.env.XDG_STATE_HOME ?? join(homedir(), '.local', 'state'), 'signalbox');
  try {
    const { ui_url, token } = JSON.parse(readFileSync(join(state, 'instance.json'), 'utf8')) as {
      ui_url: string;
      token: string;
    };
    return { url: new URL(ui_url), token };
  } catch {
    return undefined;
  }
}
