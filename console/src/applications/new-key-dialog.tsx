/** Shows a new key once. Closes only after the user confirms that it is stored. */
import { Button, Checkbox, Modal, Tabs } from '@mantine/core';
import { useRef, useState } from 'react';
import { type CopyResult, copyMessages } from '../frame/copy.ts';
import { CopyButton } from '../frame/copy-button.tsx';
import { formatDate } from '../frame/format.ts';
import { Icon } from '../frame/icons.tsx';
import { useUnsaved } from '../frame/unsaved.ts';

interface Props {
  readonly secret: string;
  readonly name: string;
  readonly note: string;
  readonly close: () => void;
}

function snippets(secret: string): [name: string, text: string][] {
  const url = location.origin;
  return [
    ['.env', `SALLYPORT_URL=${url}\nSALLYPORT_KEY=${secret}`],
    ['curl', `curl -H "SVC-API-KEY: ${secret}" ${url}/applications/key`],
    [
      'SDK',
      `import { Sallyport } from '@sallyport/sdk';\n\nconst sallyport = new Sallyport({\n  url: '${url}',\n  key: process.env.SALLYPORT_KEY,\n});`,
    ],
    [
      'Python',
      `import json, os, urllib.request\n\nrequest = urllib.request.Request(\n    '${url}/applications/key',\n    headers={'SVC-API-KEY': os.environ['SALLYPORT_KEY']},\n)\nprint(json.load(urllib.request.urlopen(request)))`,
    ],
    [
      'Go',
      `request, _ := http.NewRequest("GET", "${url}/applications/key", nil)\nrequest.Header.Set("SVC-API-KEY", os.Getenv("SALLYPORT_KEY"))\nresponse, err := http.DefaultClient.Do(request)`,
    ],
  ];
}

/** Tells the user to store a new key, and when it expires. */
export function keyNote(expiry: string | undefined): string {
  const end = expiry === undefined ? '' : ` It expires on ${formatDate(expiry)}.`;
  return `Store it where your program can read it.${end}`;
}

export function NewKeyDialog({ secret, name, note, close }: Props) {
  const [stored, setStored] = useState(false);
  const [copied, setCopied] = useState<CopyResult>();
  const field = useRef<HTMLInputElement>(null);
  useUnsaved(!stored, () => {});
  return (
    <Modal
      opened
      onClose={close}
      withCloseButton={stored}
      closeOnClickOutside={false}
      closeOnEscape={stored}
      size={560}
      title={`New key for ${name}`}
    >
      <div className="stack">
        <p className="quiet">{note} The key is shown only once.</p>
        <div className="secret">
          <input
            ref={field}
            readOnly
            aria-label="New key"
            value={secret}
            onFocus={(event) => event.currentTarget.select()}
          />
          <CopyButton text={secret} field={field} label="Copy key" done={setCopied} />
        </div>
        {copied && (
          <p className={copied === 'failed' ? 'error-text' : 'fine'} role="status">
            {copyMessages[copied]}
          </p>
        )}
        <Tabs defaultValue=".env" variant="default">
          <Tabs.List>
            {snippets(secret).map(([label]) => (
              <Tabs.Tab key={label} value={label}>
                {label}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          {snippets(secret).map(([label, text]) => (
            <Tabs.Panel key={label} value={label}>
              <div className="snippet">
                <pre>{text}</pre>
                <CopyButton text={text} field={field} />
              </div>
            </Tabs.Panel>
          ))}
        </Tabs>
        <div className="foot">
          <Checkbox
            label="I have stored the key"
            checked={stored}
            onChange={(event) => setStored(event.currentTarget.checked)}
          />
          <Button disabled={!stored} onClick={close} rightSection={<Icon name="check" size={14} />}>
            Done
          </Button>
        </div>
      </div>
    </Modal>
  );
}
