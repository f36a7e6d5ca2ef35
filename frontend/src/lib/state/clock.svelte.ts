/** The time, moving only while somebody looks at it. */
class Clock {
  now = $state(Date.now());
  private users = 0;
  private timer: ReturnType<typeof setInterval> | undefined;

  /** Starts the clock; the returned function ends this use of it. */
  tick(): () => void {
    this.now = Date.now();
    if (++this.users === 1) this.timer = setInterval(() => (this.now = Date.now()), 500);
    return () => {
      if (--this.users === 0) clearInterval(this.timer);
    };
  }
}

export const clock = new Clock();
