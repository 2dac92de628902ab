import { openApp } from '../app.ts';
import { banner } from './banner.ts';
import type { Invocation } from './command.ts';
import { untilTold } from './stop.ts';
import { isWorker, leaveSupervisor, superviseWorkers, tellSupervisor } from './workers.ts';

export async function serve({ config, print }: Invocation): Promise<number> {
  if (config.workers > 1 && !isWorker()) return superviseWorkers(config, print);
  const stop = untilTold();
  try {
    const app = await openApp(config, { shared: isWorker() });
    if (isWorker()) tellSupervisor(app);
    else print(banner(config, app, app.metricsUrl === undefined ? [] : [app.metricsUrl]));
    await stop;
    await app.close();
    return 0;
  } finally {
    leaveSupervisor();
  }
}
