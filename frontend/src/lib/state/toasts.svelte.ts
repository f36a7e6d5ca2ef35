export interface Toast {
  id: number;
  text: string;
  level: 'info' | 'error';
  action?: { label: string; run(): void };
}

class ToastsState {
  list = $state<Toast[]>([]);
  private next = 1;

  show(text: string, options: { level?: Toast['level']; action?: Toast['action']; ms?: number } = {}): void {
    const id = this.next++;
    this.list = [...this.list.slice(-2), { id, text, level: options.level ?? 'info', action: options.action }];
    setTimeout(() => this.dismiss(id), options.ms ?? (options.action ? 8000 : 4000));
  }

  dismiss(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id);
  }
}

export const toasts = new ToastsState();
