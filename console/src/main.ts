/** Shows the page with its logo first. Compiling the rest takes a second on a slow computer. */
import './styles.css';

const load = () => import('./root.tsx');
// A hidden tab draws no frame.
if (document.hidden) load();
else requestAnimationFrame(() => setTimeout(load));
