import { openApp } from '../../app.ts';
import type { Invocation } from '../command.ts';
import { banner } from '../terminal/banner.ts';
import { untilSignal } from '../terminal/signals.ts';
import { disconnectSupervisor, isWorker, reportListening, superviseWorkers } from './workers.ts';

export async function serve({ config, print }: Invocation): Promise<number> {
  if (config.workers > 1 && !isWorker()) return superviseWorkers(config, print);
  const stop = untilSignal();
  try {
    const app = await openApp(config, { shared: isWorker() });
    if (isWorker()) reportListening(app);
    else print(banner(config, app, app.metricsUrl === undefined ? [] : [app.metricsUrl]));
    await stop;
    await app.close();
    return 0;
  } finally {
    disconnectSupervisor();
  }
}
