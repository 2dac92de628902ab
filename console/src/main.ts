/** Shows the page with its logo first. Compiling the rest takes a second on a slow computer. */
import './styles.css';
import { config } from 'zod/v4/core';

// The content security policy forbids eval, so zod must not compile schemas. It decides that when a schema is created.
config({ jitless: true });

const load = () => import('./root.tsx');
// A hidden tab draws no frame.
if (document.hidden) load();
else requestAnimationFrame(() => setTimeout(load));
